"""Systems on pretrained parts, as their users meet them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attune.generate.neural import NeuralSystem
from attune.generate.settings import Decoding
from attune.generate.systems import needed, run_decoding
from attune.models import SYSTEMS


class PretrainedSystem(NeuralSystem):
    """A model on pretrained parts. Its likelihood is of the raw text, in its decoder's own tokens."""

    batch = 32
    text_form = "raw"

    def __init__(self, model: Any, codec: Any, name: str, decoding: Decoding, path: Path | None = None) -> None:
        super().__init__(model, codec, name, decoding, path)
        self.vocabulary: str = codec.vocabulary


def open_pretrained(path: Path, name: str) -> PretrainedSystem:
    """Open the run of a system on pretrained parts."""
    needed(path, "model.safetensors")
    model, codec = SYSTEMS[name].open(path)
    return PretrainedSystem(model, codec, name, run_decoding(path), path)
