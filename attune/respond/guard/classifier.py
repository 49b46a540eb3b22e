"""What the rules leave open: a sentence encoder, adapted by small weights of our own, reads messages and replies.

The encoder is MiniLM, which the rest of the program uses too; the weights (`data/guard.safetensors`) hold what is added to
its layers, as products of two thin matrices, and one layer on top for each task. :mod:`attune.respond.guard.train` fits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from attune.knowledge.sentences import SentenceEncoder

Array = NDArray[np.float32]

OF_ANOTHER = ", of another"  # a risk that the person tells of somebody else
HEARD = (
    "none",
    *(f"{risk}{whose}" for risk in ("self-harm", "harm-to-others", "abuse") for whose in ("", OF_ANOTHER)),
    "emergency",
)
JUDGED = (
    "ok",
    "cruel",
    "insult",
    "hateful",
    "threat",
    "sexual",
    "medical",
    "encourages-harm",
    "blames-victim",
    "belittles-danger",
    "claims-human",
)
SCALE = 20.0  # the encoder's vectors have length one
WEIGHTS = "guard.safetensors"


class Classifier:
    """Probabilities for messages (:data:`HEARD`) and for replies (:data:`JUDGED`). The first label of each is harmless."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        adapted = {name.removesuffix(".up") for name in weights if name.endswith(".up")}
        added = {f"{name}.weight": weights[f"{name}.up"] @ weights[f"{name}.down"] for name in sorted(adapted)}
        self._encoder = SentenceEncoder(threads=1, added=added)  # a message is too short to share between cores
        self._weights = weights

    def hear(self, texts: Sequence[str]) -> Array:
        """A row for each message."""
        return self._probabilities("hear", texts)

    def judge(self, pairs: Sequence[tuple[str, str]]) -> Array:
        """A row for each pair of what a person said and the reply to it."""
        return self._probabilities("judge", pairs)

    def _probabilities(self, task: str, texts: Sequence[str | tuple[str, str]]) -> Array:
        scores = SCALE * self._encoder.encode(texts) @ self._weights[f"{task}.weight"].T + self._weights[f"{task}.bias"]
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)


def load_classifier() -> Classifier:
    """The classifier of this package."""
    data = load(resources.files("attune.respond.guard").joinpath("data", WEIGHTS).read_bytes())
    return Classifier({name: tensor.astype(np.float32) for name, tensor in data.items()})
