"""A classifier's run as it was trained, in torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attune.emotion.taxonomy import LABELS
from attune.generate.labeller import Labeller
from attune.generate.neural import by_length
from attune.generate.systems import Progress, needed
from attune.models import SYSTEMS


class TorchLabeller(Labeller):
    """A model of `classifier-41` with its codec."""

    batch = 128

    def __init__(self, model: Any, codec: Any, name: str, path: Path | None = None) -> None:
        super().__init__(name, path)
        self.model, self.codec = model.eval(), codec

    def logits(self, texts: Sequence[str], progress: Progress | None = None) -> np.ndarray:
        items = self.codec.encode_texts(texts)
        found = np.zeros((len(items), len(LABELS)), dtype=np.float32)
        for places in by_length(items, self.batch):
            with torch.inference_mode():
                found[places] = self.model.log_probabilities(self.codec.collate([items[i] for i in places])).numpy()
            if progress:
                progress(len(places))
        return found


def open_labeller(path: Path, name: str) -> TorchLabeller:
    """Open the run of a classifier."""
    needed(path, "encoder/tokenizer.json", "model.safetensors")
    model, codec = SYSTEMS[name].open(path)
    return TorchLabeller(model, codec, name, path)
