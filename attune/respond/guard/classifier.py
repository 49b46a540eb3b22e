"""What the rules leave open: a sentence encoder, adapted by small weights of our own, hears messages or judges replies.

The encoder is MiniLM, which the rest of the program uses too. Each task has weights of its own (`data/hear.safetensors`,
`data/judge.safetensors`): what is added to the encoder's layers, as products of two thin matrices, and one layer on top.
:mod:`attune.respond.guard.train` fits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
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
TASKS = {"hear": HEARD, "judge": JUDGED}  # the first label of each is harmless
SCALE = 20.0  # the encoder's vectors have length one


class Classifier:
    """Probabilities of a task's labels (:data:`TASKS`)."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        adapted = {name.removesuffix(".up") for name in weights if name.endswith(".up")}
        added = {f"{name}.weight": weights[f"{name}.up"] @ weights[f"{name}.down"] for name in sorted(adapted)}
        self._encoder = SentenceEncoder(threads=1, added=added)  # a message is too short to share between cores
        self._weight, self._bias = SCALE * weights["head.weight"].T, weights["head.bias"]

    def __call__(self, texts: Sequence[str | tuple[str, str]]) -> Array:
        """A row for each message that is heard, or for each pair of what a person said and the reply to be judged."""
        scores = self._encoder.encode(texts) @ self._weight + self._bias
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(odds / odds.sum(axis=1, keepdims=True), dtype=np.float32)


@lru_cache(maxsize=len(TASKS))
def load_classifier(task: str) -> Classifier:
    """The classifier of this package for a task."""
    data = load(resources.files("attune.respond.guard").joinpath("data", weights_of(task)).read_bytes())
    return Classifier({name: tensor.astype(np.float32) for name, tensor in data.items()})


def weights_of(task: str) -> str:
    """The name of the file that holds a task's weights."""
    return f"{task}.safetensors"
