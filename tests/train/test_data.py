from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.models.codec import Encoded
from attune.train.data import bucketed, in_order
from attune.train.schedules import rate


def items(lengths: list[int]) -> list[Encoded]:
    return [Encoded(np.zeros(n, np.int32), np.zeros(n, np.int8), np.zeros(2, np.int32)) for n in lengths]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=300), st.integers(1, 9), st.integers(0, 3))
def test_an_epoch_sees_every_example_once_in_an_order_fixed_by_seed_and_epoch(
    lengths: list[int], size: int, epoch: int
) -> None:
    data = items(lengths)
    batches = bucketed(data, size, 7, epoch)
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(data)))
    assert max(len(batch) for batch in batches) <= size
    assert [b.tolist() for b in batches] == [b.tolist() for b in bucketed(data, size, 7, epoch)]


def test_bucketed_batches_pad_little_and_epochs_differ() -> None:
    lengths = np.random.default_rng(0).integers(5, 100, 5000).tolist()
    data = items(lengths)
    batches = bucketed(data, 16, 0, 0)
    padded = sum(max(lengths[i] for i in batch) * len(batch) for batch in batches)
    assert padded < 1.05 * sum(lengths)
    assert [b.tolist() for b in batches] != [b.tolist() for b in bucketed(data, 16, 0, 1)]
    assert sorted(np.concatenate(list(in_order(data, 64))).tolist()) == list(range(5000))


def test_schedules_warm_up_and_come_down() -> None:
    settings = {"peak": 2.0, "warmup": 10, "total": 100, "d_model": 4}
    for schedule in ("noam", "linear", "constant"):
        values = [rate(schedule, step, **settings) for step in range(1, 101)]  # type: ignore[arg-type]
        assert values[:10] == sorted(values[:10])
        assert values[9] == max(values)
    assert rate("linear", 100, **settings) == 0  # type: ignore[arg-type]
    assert rate("constant", 100, **settings) == 2  # type: ignore[arg-type]
    assert rate("noam", 40, **settings) == pytest.approx(rate("noam", 10, **settings) / 2)  # type: ignore[arg-type]


def test_batches_are_alike_in_both_lengths() -> None:
    rng = np.random.default_rng(0)
    contexts, responses = rng.integers(5, 100, 4800), rng.integers(2, 40, 4800)
    data = [
        Encoded(np.zeros(n, np.int32), np.zeros(n, np.int8), np.zeros(m, np.int32))
        for n, m in zip(contexts, responses, strict=True)
    ]
    batches = bucketed(data, 16, 0, 0)
    assert sum(contexts[b].max() * len(b) for b in batches) < 1.1 * contexts.sum()
    assert sum(responses[b].max() * len(b) for b in batches) < 1.2 * responses.sum()
