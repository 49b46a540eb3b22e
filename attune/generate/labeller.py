"""The stand-alone emotion and intent classifier: texts to one of 41 labels, with calibrated probabilities.

>>> labeller = Labeller.open("runs/classifier-41-default")  # doctest: +SKIP
>>> labeller.label(["My old dog died on Monday."])[0]  # doctest: +SKIP
Label(label='sad', probability=0.52, probabilities={'sad': 0.52, 'devastated': 0.31, ...})
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import torch

from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.errors import SettingsError
from attune.generate.neural import by_length
from attune.generate.systems import Progress, needed, open_system
from attune.models import SYSTEMS

DEFAULT_RUN = "runs/classifier-41-default"  # where `attune train classifier-41` leaves it


class Label(NamedTuple):
    """The most probable label of a text, and the probabilities of all 41, highest first."""

    label: str
    probability: float
    probabilities: dict[str, float]


class Labeller:
    """Labels utterances, and perceives the emotion in what a speaker said. Texts of like length are read together."""

    capabilities = frozenset({"label", "perceive"})
    batch = 128

    def __init__(self, model: Any, codec: Any, name: str, path: Path | None = None) -> None:
        self.model, self.codec, self.name, self.path = model.eval(), codec, name, path
        self.corpus, self.protocol = model.corpus, model.protocol

    @classmethod
    def open(cls, path: str | Path = DEFAULT_RUN) -> Self:
        """Open the run of a classifier."""
        found: Any = open_system(path)
        if not isinstance(found, cls):
            raise SettingsError(f"the run at {path} is of '{found.name}', which does not label utterances")
        return found

    def label(self, texts: Sequence[str], *, progress: Progress | None = None) -> list[Label]:
        """The label of each text, in their order."""
        found = self._read(self.codec.encode_texts(texts), progress).softmax(-1).numpy()
        labels = []
        for row, order in zip(found, (-found).argsort(-1, kind="stable"), strict=True):
            shares = {LABELS[i]: float(row[i]) for i in order}
            labels.append(Label(LABELS[order[0]], float(row[order[0]]), shares))
        return labels

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 32]: the emotion in all that the speaker said, the nine other labels left out."""
        found = self._read(self.codec.encode_contexts(contexts), progress)[:, : len(EMOTIONS)]
        return np.asarray(found.softmax(-1).numpy())

    def _read(self, items: Sequence[Any], progress: Progress | None) -> torch.Tensor:
        """Log-probabilities [n, 41]."""
        found = torch.zeros(len(items), len(LABELS))
        for places in by_length(items, self.batch):
            with torch.inference_mode():
                found[places] = self.model.log_probabilities(self.codec.collate([items[i] for i in places]))
            if progress:
                progress(len(places))
        return found


def open_labeller(path: Path, name: str) -> Labeller:
    """Open the run of a classifier."""
    needed(path, "encoder/tokenizer.json", "model.safetensors")
    model, codec = SYSTEMS[name].open(path)
    return Labeller(model, codec, name, path)
