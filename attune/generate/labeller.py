"""The stand-alone emotion and intent classifier: texts to one of 41 labels, with calibrated probabilities. No torch here.

>>> labeller = Labeller.open()  # the one that comes with Attune
>>> labeller.label(["My old dog died on Monday."])[0].label
'sad'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.errors import SettingsError
from attune.generate.systems import Progress, open_system

PACKAGED = Path(__file__).parents[1] / "data" / "labeller"  # what `attune export` made of results/classifier-41


class Label(NamedTuple):
    """The most probable label of a text, and the probabilities of all 41, highest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Labeller(ABC):
    """Labels utterances, and perceives the emotion in what a speaker said."""

    capabilities = frozenset({"label", "perceive"})
    corpus = "empathetic_intents/train_data"
    protocol = "labelled-turns"

    def __init__(self, name: str, path: Path | None = None) -> None:
        self.name, self.path = name, path

    @staticmethod
    def open(path: str | Path = PACKAGED) -> Labeller:
        """Open a classifier: the one that comes with Attune, a run, or what was exported of a run."""
        found: Any = open_system(path)
        if not isinstance(found, Labeller):
            raise SettingsError(f"the run at {path} is of '{found.name}', which does not label utterances")
        return found

    def label(self, texts: Sequence[str], *, progress: Progress | None = None) -> list[Label]:
        """The label of each text, in their order."""
        found = _shares(self.logits(texts, progress))
        labels = []
        for row, order in zip(found, (-found).argsort(-1, kind="stable"), strict=True):
            shares = {LABELS[i]: float(row[i]) for i in order}
            labels.append(Label(LABELS[order[0]], float(row[order[0]]), shares))
        return labels

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 32]: the emotion in all that the speaker said, the nine other labels left out."""
        texts = [" ".join(turn.text for turn in context if turn.role == "speaker") for context in contexts]
        return _shares(self.logits(texts, progress)[:, : len(EMOTIONS)])

    @abstractmethod
    def logits(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        """[n, 41]: calibrated, each row up to a number that is the same for all labels. Texts of like length are read together."""


@lru_cache(maxsize=1)
def load_labeller() -> Labeller:
    """The one that comes with Attune, opened once per process."""
    return Labeller.open()


def _shares(logits: np.ndarray) -> np.ndarray:
    odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(odds / odds.sum(axis=-1, keepdims=True))
