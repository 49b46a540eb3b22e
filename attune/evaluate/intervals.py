"""95 % intervals: the bootstrap for what is a function of sums over replies, the jackknife for counts of what is distinct.

Resampling with replacement repeats replies, and a repeated reply holds nothing distinct: the bootstrap of dist-n lies far below its
value. The jackknife leaves out a fiftieth of the replies at a time instead, and looks at how much that changes the value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

RESAMPLES = 1000
GROUPS = 50
_CHUNK = 100  # resamples drawn at a time; keeps memory flat
_NORMAL_95 = 1.959964

Combine = Callable[[np.ndarray], np.ndarray]  # sums [..., k] → values [...]


@dataclass(frozen=True, slots=True)
class Score:
    """A value and its 95 % interval; None where there is none."""

    value: float | None
    low: float | None = None
    high: float | None = None
    signature: str | None = None  # of the library that computed it, where it has one

    def json(self) -> dict[str, float | str | None]:
        found: dict[str, float | str | None] = {
            name: None if (number := getattr(self, name)) is None else round(number, 8)
            for name in ("value", "low", "high")
        }
        return found | ({"signature": self.signature} if self.signature else {})


def bootstrap(
    statistics: list[np.ndarray], combines: list[Combine], resamples: int = RESAMPLES, seed: int = 0
) -> list[Score]:
    """Values and percentile intervals of several metrics over the same resamples of the same replies.

    Each metric is a table [replies, k] and a function of its sums. An interval always holds its value.

    >>> right = np.array([[1.0, 1.0]] * 60 + [[0.0, 1.0]] * 40)
    >>> bootstrap([right], [lambda sums: 100 * sums[..., 0] / sums[..., 1]])[0].value
    60.0
    """
    table = np.concatenate(statistics, axis=1)
    n = len(table)
    ends = np.cumsum([part.shape[1] for part in statistics])
    starts = ends - [part.shape[1] for part in statistics]
    rng = np.random.default_rng(seed)
    sums = []
    for begin in range(0, resamples, _CHUNK):
        rows = min(_CHUNK, resamples - begin)
        drawn = rng.integers(n, size=(rows, n)) + np.arange(rows)[:, None] * n
        sums.append(np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(float) @ table)
    resampled = np.concatenate(sums)
    scores = []
    with np.errstate(all="ignore"):
        for start, end, part, combine in zip(starts, ends, statistics, combines, strict=True):
            value = float(combine(part.sum(0)))
            values = combine(resampled[:, start:end])
            values = values[np.isfinite(values)]
            if not np.isfinite(value) or not len(values):
                scores.append(Score(None))
                continue
            low, high = np.percentile(values, [2.5, 97.5])
            scores.append(Score(value, min(float(low), value), max(float(high), value)))
    return scores


def groups(n: int, seed: int = 0) -> np.ndarray:
    """A group for each of n replies, of equal size as far as possible: [n] in 0…GROUPS-1."""
    return np.random.default_rng(seed).permutation(n) % min(GROUPS, n)


def jackknife(value: float, without: np.ndarray, bounds: tuple[float, float]) -> Score:
    """The interval of a value from its values without each group in turn.

    >>> jackknife(50.0, np.array([49.0, 51.0, 50.0]), (0, 100))
    Score(value=50.0, low=47.7..., high=52.2..., signature=None)
    """
    g = len(without)
    if g < 2:
        return Score(value)
    reach = _NORMAL_95 * float(np.sqrt((g - 1) / g * np.square(without - without.mean()).sum()))
    return Score(value, max(bounds[0], value - reach), min(bounds[1], value + reach))
