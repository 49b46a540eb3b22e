"""What the rules leave open: a sentence encoder, adapted by small weights of our own, hears messages or judges replies.

The encoder is MiniLM, which the rest of the program uses too. Each classifier has weights of its own (`data/NAME.safetensors`):
what is added to the encoder's layers, as products of two thin matrices, and one layer on top. Replies are judged by two, which
err in different places. :mod:`attune.respond.guard.train` fits them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import resources

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load

from attune.emotion.opinions import normalised
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
FITTED = {"hear": HEARD, "judge": JUDGED, "judge-pairs": JUDGED}  # by name; the first label of each is harmless
TASKS = {"hear": ("hear",), "judge": ("judge", "judge-pairs")}  # whose opinions count alike in it
SCALE = 20.0  # the encoder's vectors have length one


class Classifier:
    """Probabilities of a classifier's labels (:data:`FITTED`)."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        adapted = {name.removesuffix(".up") for name in weights if name.endswith(".up")}
        added = {f"{name}.weight": weights[f"{name}.up"] @ weights[f"{name}.down"] for name in sorted(adapted)}
        self._encoder = SentenceEncoder(threads=1, added=added)  # a message is too short to share between cores
        self._weight, self._bias = SCALE * weights["head.weight"].T, weights["head.bias"]

    def __call__(self, texts: Sequence[str | tuple[str, str]]) -> Array:
        """A row for each message that is heard, or for each pair of what a person said and the reply to be judged."""
        scores = self._encoder.encode(texts) @ self._weight + self._bias
        return np.asarray(normalised(scores), dtype=np.float32)


class Classifiers:
    """Several of the same labels, as one: the geometric mean of their probabilities."""

    def __init__(self, members: Sequence[Classifier]) -> None:
        self.members = tuple(members)

    def __call__(self, texts: Sequence[str | tuple[str, str]]) -> Array:
        logarithms = [np.log(np.maximum(member(texts), 1e-9)) for member in self.members]
        return np.asarray(normalised(np.mean(logarithms, axis=0)), dtype=np.float32)


@lru_cache(maxsize=len(TASKS))
def load_classifier(task: str) -> Classifiers:
    """What this package has for a task (:data:`TASKS`)."""
    return Classifiers([open_classifier(name) for name in TASKS[task]])


def open_classifier(name: str) -> Classifier:
    """One of :data:`FITTED`."""
    data = load(resources.files("attune.respond.guard").joinpath("data", weights_of(name)).read_bytes())
    return Classifier({key: tensor.astype(np.float32) for key, tensor in data.items()})


def weights_of(name: str) -> str:
    """The name of the file that holds a classifier's weights."""
    return f"{name}.safetensors"
