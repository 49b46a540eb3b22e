"""What a corpus says about knowing: how many words of a response stand in the history, and how many are one hop from it in
the concept index (seed 001's Figure 2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.dialogue.text import normalise
from attune.dialogue.types import Example
from attune.errors import DataError
from attune.knowledge.build import open_index
from attune.knowledge.index import ConceptIndex
from attune.knowledge.stopwords import STOP_WORDS

Report = Callable[[int], None]  # told how many responses are done
BINS = 11  # responses by the share of their words: none, then steps of a tenth up to all
_CHUNK = 4_000  # responses looked at together


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
