"""Systems on pretrained parts, as their users meet them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from attune.dialogue.types import Context
from attune.emotion.opinions import together
from attune.emotion.wording import WORDING, Wording
from attune.generate.attune import PERCEIVER, AttuneSystem
from attune.generate.controls import Concepts, ContextControls, Ear, Perceives
from attune.generate.engines.torch import TorchEngine
from attune.generate.neural import NeuralSystem
from attune.generate.settings import Decoding
from attune.generate.systems import Progress, intact, needed, open_system, run_decoding
from attune.knowledge.recall import ConceptRecall
from attune.models import SYSTEMS
from attune.models.adapters import MORE
from attune.models.pretrained.bases import open_tokenizer
from attune.models.pretrained.lora import merge_lora


class PretrainedSystem(NeuralSystem):
    """A model on pretrained parts. Its likelihood is of the raw text, in its decoder's own tokens."""

    batch = 32
    text_form, typed = "raw", True

    def __init__(self, model: Any, codec: Any, name: str, decoding: Decoding, path: Path | None = None) -> None:
        super().__init__(model, codec, name, decoding, path)
        self.vocabulary: str = codec.vocabulary


def open_pretrained(path: Path, name: str) -> PretrainedSystem:
    """Open the run of a system on pretrained parts."""
    needed(path, "model.safetensors")
    model, codec = SYSTEMS[name].open(path)
    merge_lora(model)
    return PretrainedSystem(model, codec, name, run_decoding(path), path)


class PerceiverSystem(PretrainedSystem):
    """A perceiver, which may also hear the words by themselves."""

    codec: Any

    @property
    def wording(self) -> Wording | None:
        return self.codec.wording

    def seen(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 32]: what the encoder alone takes contexts to feel."""
        return super().perceive(contexts, progress=progress)

    def perceive(self, contexts: Sequence[Context], *, progress: Progress | None = None) -> np.ndarray:
        """[n, 32] probabilities in the order of EMOTIONS."""
        seen = self.seen(contexts, progress=progress)
        if self.wording is None:
            return seen
        return together(seen, self.wording.perceive(contexts), self.model.config.words_share)


def open_perceiver(path: Path, name: str) -> PerceiverSystem:
    """Open a run of a perceiver."""
    needed(path, "model.safetensors")
    model, codec = SYSTEMS[name].open(path)
    if model.config.words_share:
        codec.wording = Wording.load(path / WORDING)
    return PerceiverSystem(model, codec, name, run_decoding(path), path)


class TorchAttune(AttuneSystem):
    """The system `attune` as it was trained: its model, whose decoder is the engine, and a perceiver beside it."""

    def __init__(
        self, model: Any, codec: Any, name: str, decoding: Decoding, perceiver: Perceives, path: Path | None = None
    ) -> None:
        self.model, self.codec = model.eval(), codec
        config = model.config
        engine = TorchEngine(model.decoder, codec.tokenizer.backend_tokenizer, eos=codec.eos, forbidden=codec.forbidden)
        controls = ContextControls(
            perceiver,
            Concepts(ConceptRecall()) if config.concepts else None,
            Ear(engine, codec.prompts, codec.shown),
            config.decoder_share if config.emotion_weight else 0.0,
        )
        codec.controls = controls
        super().__init__(config.to_dict(), engine, codec.prompts, controls, decoding, name, path)


def open_attune(path: Path, name: str) -> TorchAttune:
    """Open a run of the system `attune`, or the folder for torch of an export, which shares the perceiver and the tokenizer."""
    kind = SYSTEMS[name]
    needed(path, "model.safetensors")
    shared = path if (path / PERCEIVER).is_dir() else path.parent
    needed(shared, "config.json", "decoder/tokenizer.json", f"{PERCEIVER}/config.json")
    weights = [path / "model.safetensors", path / MORE]
    weights += [shared / PERCEIVER / name for name in ("model.safetensors", WORDING)]
    intact(shared, *(str(file.relative_to(shared)) for file in weights if file.is_file()), "decoder/tokenizer.json")
    model = kind.from_pretrained(path)
    merge_lora(model.decoder)
    codec = kind.codec_class(model.config, {"decoder": open_tokenizer(shared / "decoder")})
    return TorchAttune(model, codec, name, run_decoding(path), open_system(shared / PERCEIVER), path)
