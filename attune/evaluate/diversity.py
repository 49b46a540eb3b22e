"""How varied the replies are: distinct n-grams, distinct replies, replies copied from training, and their length.

dist-n is corpus-level: distinct n-grams of all replies ÷ all n-grams, in percent, over the whitespace tokens of `prediction`,
no n-gram across two replies. It falls with the number of replies, so it is also given for samples of 1,000.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attune.evaluate.intervals import Score, groups, jackknife
from attune.evaluate.metrics import SAME_ITEMS, Summed, Whole
from attune.evaluate.outputs import Outputs

SAMPLES = 100
SAMPLE_SIZE = 1000
_SAID = frozenset({"prediction"})


@dataclass(frozen=True, slots=True)
class Grams:
    """Every n-gram of every reply: its type, and the reply it stands in."""

    types: np.ndarray  # [total] 0…distinct-1
    reply: np.ndarray  # [total]
    replies: int

    @classmethod
    def of(cls, replies: Sequence[Sequence[str]], n: int) -> Grams:
        number: dict[tuple[str, ...], int] = {}
        found = [
            [number.setdefault(gram, len(number)) for gram in zip(*(words[i:] for i in range(n)), strict=False)]
            for words in replies
        ]
        reply = np.repeat(np.arange(len(found)), [len(grams) for grams in found])
        return cls(np.array([gram for grams in found for gram in grams], dtype=np.int64), reply, len(found))

    def percent(self, chosen: np.ndarray | None = None) -> float | None:
        """Distinct ÷ all, in percent; of the chosen replies only, if a mask [replies] is given."""
        types = self.types if chosen is None else self.types[chosen[self.reply]]
        return 100.0 * int(np.count_nonzero(np.bincount(types))) / len(types) if len(types) else None

    def without_groups(self, seed: int) -> np.ndarray:
        """The percentage without each group of replies in turn."""
        if not self.replies:
            return np.empty(0)
        group = groups(self.replies, seed)[self.reply]
        total = np.bincount(self.types)
        kept = []
        for g in range(min(self.replies, int(group.max(initial=0)) + 1)):
            inside = self.types[group == g]
            gone = np.count_nonzero(np.bincount(inside, minlength=len(total))[: len(total)] == total)
            left = len(self.types) - len(inside)
            kept.append(100.0 * (len(total) - gone) / left if left else np.nan)
        return np.array([value for value in kept if not np.isnan(value)])


def dist(outputs: Outputs, n: int, seed: int) -> Score:
    """dist-n of all replies with its jackknife interval; None where no reply has n words."""
    return _distinct(Grams.of(outputs.words, n), seed)


def dist_at(outputs: Outputs, n: int, seed: int, size: int = SAMPLE_SIZE, samples: int = SAMPLES) -> Score:
    """Mean dist-n of seeded samples of `size` replies, drawn without replacement; None for fewer replies.

    The interval is the middle 95 % of the samples: where another `size` replies would fall. With fewer than twice `size`
    replies the samples overlap too much to say so, and there is none.
    """
    replies = len(outputs)
    if replies < size:
        return Score(None)
    grams = Grams.of(outputs.words, n)
    if replies == size:
        return Score(grams.percent())
    rng = np.random.default_rng(seed)
    values = []
    for _ in range(samples):
        chosen = np.zeros(replies, dtype=bool)
        chosen[rng.permutation(replies)[:size]] = True
        if (value := grams.percent(chosen)) is not None:
            values.append(value)
    if not values:
        return Score(None)
    if replies < 2 * size:
        return Score(float(np.mean(values)))
    low, high = np.percentile(values, [2.5, 97.5])
    return Score(float(np.mean(values)), float(low), float(high))


def _distinct(grams: Grams, seed: int) -> Score:
    value = grams.percent()
    return Score(None) if value is None else jackknife(value, grams.without_groups(seed), (0.0, 100.0))


def _replies(outputs: Outputs, seed: int) -> Score:
    return _distinct(Grams.of([[" ".join(words)] for words in outputs.words], 1), seed)


def _copied(outputs: Outputs) -> np.ndarray:
    known = outputs.training or ()
    return np.array([[" ".join(words) in known, 1] for words in outputs.words], dtype=float)


def _lengths(outputs: Outputs) -> np.ndarray:
    return np.array([[len(words), 1] for words in outputs.words], dtype=float)


_DECODED = SAME_ITEMS | {"decoding"}

DIST_1 = Whole(
    name="dist_1",
    title="dist-1",
    about="distinct words ÷ all words of all replies, in percent",
    needs=_SAID,
    agree=_DECODED,
    measure=lambda outputs, seed: dist(outputs, 1, seed),
)
DIST_2 = Whole(
    name="dist_2",
    title="dist-2",
    about="distinct bigrams ÷ all bigrams of all replies, in percent",
    needs=_SAID,
    agree=_DECODED,
    measure=lambda outputs, seed: dist(outputs, 2, seed),
)
DIST_1_AT_1000 = Whole(
    name="dist_1_at_1000",
    title="dist-1 at 1,000",
    about=f"mean dist-1 of {SAMPLES} seeded samples of 1,000 replies",
    needs=_SAID,
    agree=_DECODED - {"n"},
    measure=lambda outputs, seed: dist_at(outputs, 1, seed),
)
DIST_2_AT_1000 = Whole(
    name="dist_2_at_1000",
    title="dist-2 at 1,000",
    about=f"mean dist-2 of {SAMPLES} seeded samples of 1,000 replies",
    needs=_SAID,
    agree=_DECODED - {"n"},
    measure=lambda outputs, seed: dist_at(outputs, 2, seed),
)
DISTINCT_REPLIES = Whole(
    name="distinct_replies",
    title="distinct replies",
    about="different replies ÷ replies, in percent",
    needs=_SAID,
    agree=_DECODED,
    measure=_replies,
)
COPIED_REPLIES = Summed(
    name="copied_replies",
    title="copied",
    about="replies that stand word for word among the training responses, in percent",
    needs=_SAID | {"training"},
    better="neither",
    agree=_DECODED,
    statistics=_copied,
    combine=lambda sums: 100 * sums[..., 0] / sums[..., 1],
)
MEAN_LENGTH = Summed(
    name="mean_length",
    title="length",
    about="words per reply",
    needs=_SAID,
    better="neither",
    agree=_DECODED,
    statistics=_lengths,
    combine=lambda sums: sums[..., 0] / sums[..., 1],
)
