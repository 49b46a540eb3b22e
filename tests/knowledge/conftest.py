"""Small concept indexes made of rows that a test writes down, and lexicons and vectors of a few words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from attune.knowledge.build import build
from attune.knowledge.index import ConceptIndex

Rows = Sequence[tuple[str, str, str, float]]
MakeIndex = Callable[[Rows], ConceptIndex]


def conceptnet4(rows: Rows) -> str:
    """Rows (relation, head, tail, weight) in ConceptNet 4's format."""
    lines = (f"{relation}\t{head}\t{tail}\t1\t5\t{weight}\n" for relation, head, tail, weight in rows)
    return "relation\thead\ttail\tscore\tfreq\tweight\n" + "".join(lines)


@pytest.fixture
def make_index(tmp_path: Path) -> MakeIndex:
    """An index of rows (relation, head, tail, weight); a weight of 2 is a confidence of 1."""

    def make(rows: Rows) -> ConceptIndex:
        folder = tmp_path / f"index{len(list(tmp_path.iterdir()))}"
        file = tmp_path / f"{folder.name}.tsv"
        file.write_text(conceptnet4(rows))
        return build("conceptnet4", folder, file)

    return make


class FewWords:
    """A lexicon of a few words."""

    def __init__(self, words: Mapping[str, float]) -> None:
        self._words = dict(words)

    def __iter__(self) -> Iterator[str]:
        return iter(self._words)

    def intensity(self, word: str, unknown: float = 0.0) -> float:
        return self._words.get(word, unknown)


class FewVectors:
    """Cosines written down; 0 for every other pair."""

    def __init__(self, cosines: Mapping[tuple[str, str], float] | None = None) -> None:
        self._cosines = dict(cosines or {})

    def cosines(self, word: str, others: Sequence[str]) -> NDArray[np.float32]:
        return np.array([self._cosines.get((word, other), 0.0) for other in others], dtype=np.float32)
