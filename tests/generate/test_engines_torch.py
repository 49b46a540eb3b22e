"""The engine torch remembers what it read: a conversation that goes on costs what is new in it, and nothing else changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from attune.generate.engines.readings import Readings, alike
from attune.generate.engines.torch import TorchEngine
from attune.generate.settings import Decoding
from tests.generate import tiny

FIRST = [1, 40, 41, 42, 43, 1]
LONGER = [*FIRST, 50, 51, 52, 1]
OTHER = [*FIRST[:3], 60, 61]
PROMPTS = [FIRST, LONGER, OTHER, [70, 71], [9]]


class Counting(TorchEngine):
    """Counts the tokens of prompts that its decoder is given."""

    tokens = 0

    def __init__(self, remembered: int = 16) -> None:
        super().__init__(tiny.with_adapters(), tiny.tokenizer(), eos=1, remembered=remembered)
        read = self.model.read_ahead

        def counted(ids: torch.Tensor, real: torch.Tensor, before: dict[str, torch.Tensor] | None = None) -> Any:
            self.tokens += int(real.sum())
            return read(ids, real, before)

        self.model.read_ahead = counted  # type: ignore[method-assign]


def test_a_conversation_that_goes_on_is_read_from_where_it_stopped() -> None:
    engine = Counting()
    engine.after([FIRST], [5])
    assert engine.tokens == len(FIRST) - 1, "the last token starts the reply"
    engine.after([LONGER], [5])
    assert engine.tokens == len(LONGER) - 1, "no token twice"
    engine.generate([LONGER] * 3, [Decoding(max_steps=2)] * 3, [0, 1, 2])
    assert engine.tokens == len(LONGER) - 1
    engine.nll([FIRST, OTHER], [[7, 1], [7, 1]])
    assert engine.tokens == len(LONGER) - 1 + len(OTHER) - 1 - 3, "OTHER parts from the others behind its third token"


def test_candidates_of_one_prompt_read_it_once() -> None:
    engine = Counting()
    engine.generate([LONGER] * 4, [Decoding(max_steps=2)] * 4, [0, 1, 2, 3])
    assert engine.tokens == len(LONGER) - 1


def test_a_reply_that_is_not_scored_is_the_same_and_costs_no_other_reading() -> None:
    engine, settings = Counting(remembered=0), [Decoding(max_steps=6)] * len(PROMPTS)
    scored = engine.generate(PROMPTS, settings, range(5))
    both = engine.tokens
    bare = engine.generate(PROMPTS, settings, range(5), scored=False)
    assert [one.ids for one in bare] == [one.ids for one in scored]
    assert all(one.logprobs for one in scored)
    assert not any(one.logprobs for one in bare)
    assert engine.tokens - both == both / 2


def test_what_is_remembered_changes_nothing() -> None:
    fresh, engine = Counting(remembered=0), Counting()
    replies = [[7, 8, 1], [9, 1], [10, 11, 12, 1], [1], [13, 1]]
    for _ in range(2):  # the second time all is remembered
        np.testing.assert_allclose(engine.after(PROMPTS, [5, 6]), fresh.after(PROMPTS, [5, 6]), atol=1e-5)
        ours, theirs = engine.nll(PROMPTS, replies), fresh.nll(PROMPTS, replies)
        np.testing.assert_allclose([one.nll for one in ours], [one.nll for one in theirs], atol=1e-4)
        settings = [Decoding(max_steps=6)] * len(PROMPTS)
        assert [one.ids for one in engine.generate(PROMPTS, settings, range(5))] == [
            one.ids for one in fresh.generate(PROMPTS, settings, range(5))
        ]
    assert len(fresh.readings) == 0
    assert len(engine.readings) > 0


@pytest.mark.parametrize("room", [0, 1])
def test_no_more_is_kept_than_there_is_room_for(room: int) -> None:
    readings = Readings(room)
    for i in range(40):
        readings.keep((i, i), torch.zeros(1, 2, 1, 2, 1 << 13))  # 128 KiB each
        assert readings.size <= room << 20
    assert len(readings) == 8 * room
    assert (readings.find((39, 39)) is not None) == bool(room), "the latest stay"


IDS = st.lists(st.integers(0, 2), max_size=6).map(tuple)


@given(st.lists(IDS, max_size=12), IDS)
def test_as_much_is_found_as_any_kept_prompt_shares(kept: list[tuple[int, ...]], asked: tuple[int, ...]) -> None:
    readings = Readings(1)
    for ids in kept:
        readings.keep(ids, torch.tensor(ids, dtype=torch.float).view(1, 1, 1, -1, 1).expand(1, 2, 1, -1, 1))
    found = readings.find(asked)
    most = max((alike(ids, asked) for ids in kept), default=0)
    assert (0 if found is None else found.shape[3]) == most
    if found is not None:
        assert found[0, 0, 0, :, 0].tolist() == list(asked[:most])
