"""What a corpus says about feeling and knowing: figures of seeds 001 and 003, counted again.

- :func:`emotion_statistics`: how often each emotion occurs and the words used most with it (seed 003's Figure 3), and which label of
  a listener turn follows which label of a speaker turn (seed 001's Figure 3).
- :func:`knowledge_statistics`: how many words of a response stand in the history, and how many are one hop from it (seed 001's
  Figure 2).
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read, splits
from attune.dialogue.text import normalise
from attune.dialogue.types import Dialogue, Example
from attune.emotion.stopwords import NLTK_STOP_WORDS
from attune.emotion.taxonomy import EMOTIONS, LABEL_ID, LABELS
from attune.errors import DataError
from attune.knowledge.build import open_index
from attune.knowledge.index import ConceptIndex
from attune.knowledge.stopwords import STOP_WORDS

Report = Callable[[int], None]  # told how many dialogues or responses are done
TOP_WORDS = 3
LABELLED = "ed-jsonl"  # the reader of the files with a label per turn
BINS = 11  # responses by the share of their words: none, then steps of a tenth up to all
_WORD = re.compile(r"\w(?:[\w']*\w)?")
_CHUNK = 4_000  # responses looked at together


# ------------------------------------------------------------------------------------------------- emotions


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


# ------------------------------------------------------------------------------------------------ knowledge


@dataclass
class KnowledgeStatistics:
    """Where the words of responses could have come from: the history, or one hop from it in the concept index.

    A word is a distinct non-stop word of a response. It is one hop from the history if an edge joins it to a non-stop word of the
    history; both are looked up by their base form if the index has only that.
    """

    data: str
    split: str | None
    index: str  # its source
    checksum: str  # of the index
    responses: int = 0  # with at least one such word
    empty: int = 0  # responses without, left out of every share
    words: int = 0
    in_history: int = 0
    one_hop: int = 0
    only_one_hop: int = 0  # one hop from the history, and not in it
    history_bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, dtype=np.int64))
    one_hop_bins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(BINS, dtype=np.int64))

    @property
    def neither(self) -> int:
        """Words that are neither in the history nor one hop from it."""
        return self.words - self.in_history - self.only_one_hop

    @property
    def responses_in_history(self) -> int:
        """Responses with at least one word that stands in the history."""
        return self.responses - int(self.history_bins[0])

    @property
    def responses_one_hop(self) -> int:
        """Responses with at least one word one hop from the history."""
        return self.responses - int(self.one_hop_bins[0])

    def as_json(self) -> dict[str, Any]:
        """The whole as plain values; docs/guide/knowledge.md describes it."""
        words, responses = max(self.words, 1), max(self.responses, 1)
        return {
            "data": self.data,
            "split": self.split,
            "index": {"source": self.index, "checksum": self.checksum},
            "responses": self.responses,
            "responses_without_words": self.empty,
            "words": {
                "count": self.words,
                "in_history": round(self.in_history / words, 6),
                "one_hop": round(self.one_hop / words, 6),
                "only_one_hop": round(self.only_one_hop / words, 6),
                "neither": round(self.neither / words, 6),
            },
            "responses_with_a_word": {
                "in_history": round(self.responses_in_history / responses, 6),
                "one_hop": round(self.responses_one_hop / responses, 6),
            },
            "seed_001": PRINTED_SHARES,
            "responses_by_share": {"in_history": self.history_bins.tolist(), "one_hop": self.one_hop_bins.tolist()},
        }


PRINTED_SHARES = {"in_history": 0.005, "one_hop": 0.801}  # of dialogue samples, as seed 001 says beside its Figure 2


def knowledge_statistics(
    path: str | Path,
    *,
    split: str | None = None,
    index: ConceptIndex | None = None,
    report: Report | None = None,
) -> KnowledgeStatistics:
    """Look where the words of every listener turn come from, in a file, a corpus folder or one split of it."""
    index = open_index() if index is None else index
    found = KnowledgeStatistics(str(path), split, str(index.meta["source"]), index.checksum)
    stream = examples(read(path, split=split))
    while chunk := list(islice(stream, _CHUNK)):
        _count(chunk, index, found)
        if report is not None:
            report(found.responses + found.empty)
    if not found.words:
        raise DataError(f"{path}: no listener turn answers anything with a word that is no stop word")
    return found


def _count(chunk: list[Example], index: ConceptIndex, found: KnowledgeStatistics) -> None:
    said: dict[str, frozenset[str]] = {}  # turn → its non-stop words; a turn stands in the context of every later one
    for example in chunk:
        for turn in (*example.context, example.response):
            if turn.text not in said:
                tokens = normalise(turn.text)
                said[turn.text] = frozenset(word for word in tokens if word[0].isalnum() and word not in STOP_WORDS)
    every = sorted(frozenset().union(*said.values()))
    number = {word: place for word in every if (place := index.resolve(word)) is not None}
    near = _links(index, np.unique(np.fromiter(number.values(), dtype=np.int64, count=len(number))))
    for example in chunk:
        response = said[example.response.text]
        if not response:
            found.empty += 1
            continue
        history = frozenset().union(*(said[turn.text] for turn in example.context))
        starts = {number[word] for word in history if word in number}
        hops = {word for word in response if word in number and not near[number[word]].isdisjoint(starts)}
        found.responses += 1
        found.words += len(response)
        found.in_history += len(response & history)
        found.one_hop += len(hops)
        found.only_one_hop += len(hops - history)
        found.history_bins[_bin(len(response & history), len(response))] += 1
        found.one_hop_bins[_bin(len(hops), len(response))] += 1


def _links(index: ConceptIndex, numbers: NDArray[np.int64]) -> dict[int, frozenset[int]]:
    """For each of the concepts, those of the others that an edge joins it to: one look-up for all."""
    batch = index.neighbours_many(index.texts(numbers.astype(np.uint32)))
    wanted = np.zeros(len(index), dtype=bool)
    wanted[numbers] = True
    kept = wanted[batch.concepts]
    ends = np.concatenate(([0], np.cumsum(kept)))[batch.offsets]
    concepts = batch.concepts[kept].tolist()
    return {
        number: frozenset(concepts[first:last]) for number, first, last in zip(numbers.tolist(), ends[:-1], ends[1:])
    }


def _bin(part: int, whole: int) -> int:
    """0 for none; 1 for up to a tenth … 10 for more than nine tenths."""
    return -(-10 * part // whole)
