"""What the words of a context, and their pairs, tell by themselves about the emotion: a linear classifier. No torch here.

Seed 003's fastText classifier is of this kind. It knows nothing of order or meaning, and so errs in other places than a
network does: as one more opinion it is worth more than its own accuracy. :mod:`attune.train.wording` fits it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from attune.dialogue.types import Context
from attune.emotion.opinions import normalised
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError

WORDING = "wording.safetensors"
_TERM = re.compile(r"[a-z]+(?:'[a-z]+)*|[!?]")


def terms(text: str) -> Counter[str]:
    """How often each word, mark and pair of neighbours stands in a text.

    >>> sorted(terms("Oh no! Oh no, I'm sorry"))
    ['!', '! oh', "i'm", "i'm sorry", 'no', 'no !', "no i'm", 'oh', 'oh no', 'sorry']
    """
    words = _TERM.findall(text.lower().replace("’", "'"))
    return Counter([*words, *(" ".join(pair) for pair in pairwise(words))])


class Wording:
    """Probabilities of the 32 emotions out of the terms of a context.

    >>> wording = Wording(["alone", "won"], np.ones(2), np.eye(2, 32), np.zeros(32))
    >>> from attune.dialogue.types import Turn
    >>> wording.perceive([(Turn("speaker", "I won!"),)]).argmax(-1).tolist()
    [1]
    """

    def __init__(self, known: Sequence[str], rarity: NDArray[Any], weights: NDArray[Any], bias: NDArray[Any]) -> None:
        """`weights` [terms, 32] of the known terms, and how much each counts by its `rarity` [terms]."""
        self.known = {term: place for place, term in enumerate(known)}
        self.rarity, self.weights, self.bias = (np.asarray(value, np.float32) for value in (rarity, weights, bias))

    def values(self, text: str) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The places of a text's known terms, and their values, which have length one together."""
        found = {place: count for term, count in terms(text).items() if (place := self.known.get(term)) is not None}
        places = np.fromiter(found, np.int64, len(found))
        values = (1 + np.log(np.fromiter(found.values(), np.float32, len(found)))) * self.rarity[places]
        return places, values / max(float(np.linalg.norm(values)), 1e-9)

    def perceive(self, contexts: Sequence[Context]) -> NDArray[np.float32]:
        """[n, 32], in the order of EMOTIONS."""
        scores = np.tile(self.bias, (len(contexts), 1))
        for row, context in zip(scores, contexts, strict=True):
            places, values = self.values(as_text(context))
            row += values @ self.weights[places]
        return normalised(scores)

    def save(self, file: Path) -> None:
        """In 8 bits, each emotion by a scale of its own."""
        scales = np.maximum(np.abs(self.weights).max(axis=0), 1e-9) / 127
        save_file(
            {
                "terms": np.frombuffer("\n".join(self.known).encode(), np.uint8),
                "rarity": self.rarity.astype(np.float16),
                "weights": np.rint(self.weights / scales).astype(np.int8),
                "scales": scales.astype(np.float32),
                "bias": self.bias,
            },
            file,
        )

    @classmethod
    def load(cls, file: Path) -> Wording:
        try:
            found = load_file(file)
            known = found["terms"].tobytes().decode().split("\n")
            weights = found["weights"] * found["scales"]
            if weights.shape != (len(known), len(EMOTIONS)) or found["rarity"].shape != (len(known),):
                raise ValueError(f"{len(known)} terms and weights {weights.shape}")
            return cls(known, found["rarity"], weights, found["bias"])
        except (OSError, SafetensorError, KeyError, ValueError) as error:
            raise DataError(f"{file}: not the weights of terms ({error})") from None


def as_text(context: Context) -> str:
    return " ".join(turn.text for turn in context)
