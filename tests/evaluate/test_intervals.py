"""Intervals: they hold their value, shrink with more replies, and say what a new sample would do."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.evaluate.diversity import dist
from attune.evaluate.intervals import Score, bootstrap, groups, jackknife
from attune.evaluate.outputs import Item, Outputs


def ratio(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[..., 0] / sums[..., 1])


TABLES = st.lists(st.tuples(st.floats(0, 100), st.integers(1, 40)), min_size=1, max_size=60).map(
    lambda rows: np.array(rows, dtype=float)
)


@settings(max_examples=40, deadline=None)
@given(TABLES, st.integers(0, 9))
def test_an_interval_holds_its_value(table: np.ndarray, seed: int) -> None:
    (score,) = bootstrap([table], [ratio], resamples=150, seed=seed)
    assert score.value == pytest.approx(table[:, 0].sum() / table[:, 1].sum())
    assert score.low is not None
    assert score.high is not None
    assert score.low <= score.value <= score.high


def test_the_same_seed_gives_the_same_interval_and_another_does_not() -> None:
    table = np.random.default_rng(0).random((50, 2)) + 1
    first, again, other = (bootstrap([table], [ratio], seed=seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_the_bootstrap_knows_the_error_of_a_mean() -> None:
    table = np.stack([np.random.default_rng(0).normal(5, 2, 400), np.ones(400)], 1)
    (score,) = bootstrap([table], [ratio], resamples=2000)
    assert score.high is not None
    assert score.low is not None
    assert score.high - score.low == pytest.approx(2 * 1.96 * 2 / 20, rel=0.12)


def test_metrics_measured_together_give_what_they_give_alone() -> None:
    rng = np.random.default_rng(0)
    one, other = rng.random((30, 2)) + 1, rng.random((30, 2)) + 1
    together = bootstrap([one, other], [ratio, ratio])
    assert together == [bootstrap([one], [ratio])[0], bootstrap([other], [ratio])[0]]


def test_a_value_that_is_no_number_is_no_score() -> None:
    assert bootstrap([np.zeros((3, 2))], [ratio]) == [Score(None)]


def test_groups_are_of_equal_size() -> None:
    assert set(np.bincount(groups(500))) == {10}
    assert sorted(groups(7).tolist()) == list(range(7))


def test_one_group_is_not_enough_for_an_interval() -> None:
    assert jackknife(50.0, np.array([50.0]), (0, 100)) == Score(50.0)


def test_the_jackknife_of_dist_is_as_wide_as_new_replies_vary() -> None:
    """Corpora drawn anew from the same speaker: the interval's width must be that of their real spread."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(3000)])
    weights = 1 / np.arange(1, 3001)
    weights /= weights.sum()
    values, errors = [], []
    for _ in range(60):
        replies = words[rng.choice(3000, size=(300, 8), p=weights)]
        score = dist(Outputs([Item(prediction=" ".join(reply)) for reply in replies]), 1, seed=0)
        assert score.value is not None
        assert score.high is not None
        values.append(score.value)
        errors.append((score.high - score.value) / 1.96)
    assert np.mean(errors) == pytest.approx(np.std(values), rel=0.3)
