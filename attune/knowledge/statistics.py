"""What a corpus says about feeling: how often each emotion occurs and the words used most with it (seed 003's Figure 3), and
which label of a listener turn follows which label of a speaker turn (seed 001's Figure 3).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import resources
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attune.dialogue.readers import read, splits
from attune.dialogue.types import Dialogue
from attune.emotion.stopwords import NLTK_STOP_WORDS
from attune.emotion.taxonomy import EMOTIONS, LABEL_ID, LABELS
from attune.errors import DataError

Report = Callable[[int], None]  # told how many dialogues are done
TOP_WORDS = 3
LABELLED = "ed-jsonl"  # the reader of the files with a label per turn
_WORD = re.compile(r"\w(?:[\w']*\w)?")


@dataclass(frozen=True, slots=True)
class EmotionRow:
    """One emotion: its dialogues, and the content words used most in them."""

    emotion: str
    dialogues: int
    share: float  # of the dialogues that have an emotion, 0..1
    speaker_words: tuple[tuple[str, int], ...]  # with their counts
    listener_words: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Transitions:
    """From the label of a speaker turn (row) to the label of the listener turn that answers it (column).

    >>> flow = Transitions.of([("sad", "sad"), ("sad", "consoling"), ("proud", "impressed")])
    >>> flow.pairs, flow.mirrored
    (3, 0.5)
    """

    counts: NDArray[np.int64]  # [41, 41], in the order of LABELS

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, str]]) -> Transitions:
        """Count pairs of labels."""
        counts = np.zeros((len(LABELS), len(LABELS)), dtype=np.int64)
        for (spoken, answered), count in Counter(pairs).items():
            counts[LABEL_ID[spoken], LABEL_ID[answered]] = count
        return cls(counts)

    @property
    def pairs(self) -> int:
        """How many pairs were counted."""
        return int(self.counts.sum())

    @property
    def shares(self) -> NDArray[np.float64]:
        """Each row as shares that sum to 1 (or all 0)."""
        return self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)

    @property
    def emotions(self) -> NDArray[np.int64]:
        """The part in which both turns carry an emotion [32, 32]; this is what seed 001 draws."""
        return self.counts[: len(EMOTIONS), : len(EMOTIONS)]

    @property
    def mirrored(self) -> float:
        """Of the pairs in which both turns carry an emotion, the share in which it is the same."""
        return float(np.trace(self.emotions) / max(self.emotions.sum(), 1))

    @property
    def expected(self) -> float:
        """What `mirrored` would be if the listener's emotion did not depend on the speaker's."""
        total = max(self.emotions.sum(), 1)
        return float(self.emotions.sum(axis=1) @ self.emotions.sum(axis=0) / total**2)

    def strongest(self, count: int = 10, least: int = 30) -> list[tuple[str, str, float]]:
        """The most frequent changes from one emotion to another, as shares of the first one's pairs.

        Emotions of fewer than `least` pairs are left out.
        """
        totals = self.emotions.sum(axis=1, keepdims=True)
        shares = np.where(totals >= least, self.emotions / np.maximum(totals, 1), 0.0)
        np.fill_diagonal(shares, 0.0)
        places = np.argsort(-shares, axis=None, kind="stable")[:count]
        rows, columns = np.unravel_index(places, shares.shape)
        found = [(EMOTIONS[i], EMOTIONS[j], float(shares[i, j])) for i, j in zip(rows, columns)]
        return [change for change in found if change[2] > 0]


class Agreement(NamedTuple):
    """How a count compares with what seed 003 prints in its Figure 3."""

    words: int  # of the printed words, those that are found
    words_printed: int
    shares: int
    shares_printed: int


@dataclass(frozen=True)
class EmotionStatistics:
    """Emotions of the dialogues and labels of the turns."""

    data: str
    split: str | None
    dialogues: int
    emotions: tuple[EmotionRow, ...]  # the most frequent first; empty if no dialogue has one
    transitions: Transitions | None  # None if no turn has a label

    @property
    def agreement(self) -> Agreement | None:
        """The comparison with seed 003's Figure 3; None for a corpus with other emotions."""
        printed = printed_figure()
        if {row.emotion for row in self.emotions} != set(printed):
            return None
        words = shares = 0
        for row in self.emotions:
            paper = printed[row.emotion]
            for side, found in (("speaker", row.speaker_words), ("listener", row.listener_words)):
                words += len({word for word, _ in found} & set(paper[side]))
            shares += round(100 * row.share, 1) == paper["share"]
        return Agreement(words, 2 * TOP_WORDS * len(printed), shares, len(printed))

    def as_json(self) -> dict[str, Any]:
        """The whole as plain values; docs/guide/knowledge.md describes it."""
        flow = self.transitions
        return {
            "data": self.data,
            "split": self.split,
            "dialogues": self.dialogues,
            "emotions": [
                {
                    "emotion": row.emotion,
                    "dialogues": row.dialogues,
                    "share": round(row.share, 6),
                    "speaker_words": [{"word": word, "count": count} for word, count in row.speaker_words],
                    "listener_words": [{"word": word, "count": count} for word, count in row.listener_words],
                }
                for row in self.emotions
            ],
            "seed_003": self.agreement._asdict() if self.agreement else None,
            "transitions": flow
            and {
                "labels": list(LABELS),
                "counts": flow.counts.tolist(),
                "pairs": flow.pairs,
                "emotion_pairs": int(flow.emotions.sum()),
                "mirrored": round(flow.mirrored, 6),
                "expected": round(flow.expected, 6),
            },
        }


def printed_figure() -> dict[str, dict[str, Any]]:
    """What seed 003 prints in its Figure 3: per emotion the share in per cent, and three words of each side."""
    file = resources.files("attune.knowledge").joinpath("data", "seed003_figure3.json")
    return dict(json.loads(file.read_text(encoding="utf-8")))


def content_words(text: str) -> list[str]:
    """The words of a text that seed 003 counts: lower-cased, contractions whole, NLTK's stop words left out.

    >>> content_words("I'm so happy that's over, it was the 'best' day!")
    ["i'm", 'happy', "that's", 'best', 'day']
    """
    found: list[str] = _WORD.findall(text.lower().replace("’", "'"))
    return [word for word in found if word not in NLTK_STOP_WORDS]


def emotion_statistics(
    path: str | Path, *, split: str | None = None, report: Report | None = None
) -> EmotionStatistics:
    """Count the emotions, words and turn labels of a corpus folder (its training split unless `split` says) or a file."""
    path = Path(path)
    if split is None and path.is_dir() and "all" not in splits(path):
        split = "train"
    reader = LABELLED if split is not None and path.is_dir() and _is_labelled(path, split) else None
    emotions: Counter[str] = Counter()
    words: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    pairs: list[tuple[str, str]] = []
    done = 0
    for done, dialogue in enumerate(read(path, reader=reader, split=split), 1):
        if dialogue.emotion:
            emotions[dialogue.emotion] += 1
            for turn in dialogue.turns:
                words[turn.role, dialogue.emotion].update(content_words(turn.text))
        pairs += _label_pairs(dialogue)
        if report is not None:
            report(done)
    if not emotions and not pairs:
        raise DataError(f"{path}: no dialogue has an emotion and no turn has one of the {len(LABELS)} labels")
    total = sum(emotions.values())
    rows = tuple(
        EmotionRow(emotion, count, count / total, _most(words["speaker", emotion]), _most(words["listener", emotion]))
        for emotion, count in sorted(emotions.items(), key=lambda item: (-item[1], item[0]))
    )
    return EmotionStatistics(str(path), split, done, rows, Transitions.of(pairs) if pairs else None)


def _is_labelled(folder: Path, split: str) -> bool:
    """Whether EmpatheticDialogues is there as JSONL, which has a label per turn; the CSV has none."""
    try:
        return split in splits(folder, reader=LABELLED)
    except DataError:
        return False


def _label_pairs(dialogue: Dialogue) -> Iterator[tuple[str, str]]:
    for before, after in pairwise(dialogue.turns):
        if (
            (before.role, after.role) == ("speaker", "listener")
            and before.label in LABEL_ID
            and after.label in LABEL_ID
        ):
            yield str(before.label), str(after.label)


def _most(counts: Counter[str]) -> tuple[tuple[str, int], ...]:
    """The words counted most; of equal counts the first in the alphabet."""
    return tuple(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOP_WORDS])
