"""What systems on pretrained parts share: their bases, what of them is trained, and how they are saved and opened.

A run keeps the weights that its training may have changed. What stayed frozen comes from the bases again, whose checksums
are in the configuration; a run that froze nothing needs no base.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedConfig, PreTrainedModel

from attune.errors import DataError, SettingsError
from attune.models.pretrained.attention import GROUPED
from attune.models.pretrained.bases import Base, Role, attention, find_base, open_tokenizer

WEIGHTS = "model.safetensors"


class PartsConfig(PreTrainedConfig):
    """Settings of a system on pretrained parts; each is a recipe key under `model:`."""

    new_rate: float = 1.0
    """Parts that are not pretrained learn this much faster."""
    label_smoothing: float = 0.0
    """Label smoothing in training; scores are always without it."""
    bases: dict[str, dict[str, Any]] | None = None
    """Architecture and checksum of each base; filled in."""

    @property
    def roles(self) -> dict[Role, str]:
        """The bases by their names."""
        raise NotImplementedError

    def from_base(self, role: Role) -> bool:
        """Whether some weights of this base are not kept in a run."""
        raise NotImplementedError

    @property
    def measures(self) -> frozenset[str]:
        """What a training can be selected by."""
        return frozenset({"loss"})

    @property
    def d_model(self) -> int:
        """The width that the noam schedule asks for: that of the first base."""
        config = (self.bases or {})[next(iter(self.roles))]["config"]
        return int(config.get("hidden_size") or config["n_embd"])

    def get_text_config(self, *_: Any, **__: Any) -> PreTrainedConfig:
        return self  # `encoder` and `decoder` are names here, not configurations


class BasesConfig(PartsConfig):
    """Settings of a system on a pretrained encoder."""

    encoder: str = "minilm"
    """The encoder: the packaged `minilm`, a folder, or a hub name such as `FacebookAI/roberta-base`."""
    encoder_frozen: int = 0
    """Lower layers of the encoder that stay as they are, the embeddings with them (0: everything is trained)."""
    embeddings_frozen: bool = False
    """Leave the encoder's embeddings as they are, even if no layer is frozen."""
    pooling: Literal["cls", "mean", "pooler"] = "cls"
    """What stands for the whole text: the first token's state, the mean of all, or the encoder's own pooler."""
    dropout: float = 0.1
    """Dropout in front of the head on the pooled state."""
    layer_decay: float = 1.0
    """Each encoder layer learns this much more slowly than the one above it."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if not 0 <= self.dropout < 1:
            raise SettingsError(f"dropout must be in [0, 1), not {self.dropout}")
        if not 0 < self.layer_decay <= 1:
            raise SettingsError(f"layer_decay must be in (0, 1], not {self.layer_decay}")

    @property
    def roles(self) -> dict[Role, str]:
        return {"encoder": self.encoder}

    def from_base(self, role: Role) -> bool:
        return role == "encoder" and (self.encoder_frozen > 0 or self.embeddings_frozen)


class OnParts(PreTrainedModel):
    """A model on pretrained parts. A subclass adds its own parts and `losses`."""

    config_class = PartsConfig
    config: PartsConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = False
    family = "pretrained"
    corpus = "empathetic_dialogues"
    protocol = "listener-turns"
    turn_labels = False
    """Whether it learns from the labels of the corpus's turns."""
    codec_class: type[Any]

    def __init__(self, config: PartsConfig, bases: dict[Role, Any] | None = None) -> None:
        """`bases` are loaded models; one that is not given is made anew from the configuration."""
        super().__init__(config)
        for role in config.roles:
            setattr(self, role, (bases or {}).get(role) or _blank(role, config.bases or {}))

    def learn_in(self, precision: str) -> None:
        """Make ready to learn in this precision. In bf16, attention in steps is three times as fast on a CPU as in one.

        Those of transformers ("eager") would add a mask of booleans to the scores, and hide nothing.
        """
        if precision == "bf16":
            for role in self.config.roles:
                getattr(self, role).set_attn_implementation(GROUPED)

    # — where it comes from —

    @classmethod
    def fresh(cls, config: PartsConfig) -> tuple[Self, Any]:
        """An untrained system on its bases, with its codec."""
        bases = {role: find_base(name, role) for role, name in config.roles.items()}
        config.bases = {
            role: {"config": base.config.to_dict(), "checksum": base.checksum} for role, base in bases.items()
        }
        model = cls(config, {role: base.load() for role, base in bases.items()})
        tokenizers = {role: base.tokenizer() for role, base in bases.items()}
        return model, cls.codec_class(config, tokenizers)

    @classmethod
    def open(cls, path: Path) -> tuple[Self, Any]:
        """A system out of a run folder, with its codec."""
        model = cls.from_pretrained(path)
        return model, cls.codec_class(model.config, {role: open_tokenizer(path / role) for role in model.config.roles})

    def save_pretrained(self, save_directory: str | Path, **_: Any) -> None:  # type: ignore[override]
        """Write the configuration, and the weights that training may have changed."""
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.config.save_pretrained(folder)
        save_file(self.trained_state(), folder / WEIGHTS, metadata={"format": "pt"})

    @classmethod
    def from_pretrained(cls, path: str | Path, **_: Any) -> Self:  # type: ignore[override]
        """Open what `save_pretrained` wrote."""
        folder = Path(path)
        config = cls.config_class.from_pretrained(folder)
        bases = {
            role: _same(find_base(name, role), config) for role, name in config.roles.items() if config.from_base(role)
        }
        model = cls(config, {role: base.load() for role, base in bases.items()})
        tensors = cls.kept_weights(folder)
        other = sorted(tensors.keys() ^ model.trained_state().keys())
        if other:
            raise DataError(
                f"{folder / WEIGHTS}: not the weights of this configuration; {other[0]} and {len(other) - 1} more"
            )
        try:
            model.load_state_dict(tensors, strict=False)
        except RuntimeError as error:
            raise DataError(f"{folder / WEIGHTS}: {str(error).splitlines()[-1].strip()}") from None
        return model.eval()

    @classmethod
    def kept_weights(cls, folder: Path) -> dict[str, Tensor]:
        """The weights that a folder holds."""
        return read_weights(folder / WEIGHTS)

    def trained_state(self) -> dict[str, Tensor]:
        """The weights that training may change, each once."""
        return {name: p.detach().contiguous() for name, p in self.named_parameters() if p.requires_grad}

    # — learning —

    def is_new(self, name: str) -> bool:
        """Whether a parameter is not pretrained."""
        return not name.startswith(("encoder.", "decoder.")) or any(
            part in name for part in ("lora_", "cross", "pooler")
        )

    def rate_factor(self, name: str, parameter: nn.Parameter) -> float:
        """How much faster than the base rate a parameter learns."""
        return self.config.new_rate if self.is_new(name) else 1.0

    def parameter_groups(self) -> list[dict[str, Any]]:
        """What is trained, by the factor of the learning rate."""
        groups: dict[float, list[nn.Parameter]] = {}
        for name, parameter in self.named_parameters():
            if parameter.requires_grad:
                groups.setdefault(self.rate_factor(name, parameter), []).append(parameter)
        return [{"params": parameters, "factor": factor} for factor, parameters in sorted(groups.items())]

    def losses(self, batch: dict[str, Tensor], tokens: int, examples: int) -> dict[str, Tensor]:
        raise NotImplementedError

    def forward(self, batch: dict[str, Tensor], tokens: int, examples: int) -> dict[str, Tensor]:
        return self.losses(batch, tokens, examples)


class OnBases(OnParts):
    """A model on a pretrained encoder, and perhaps a decoder. A subclass adds its heads and `losses`."""

    config_class = BasesConfig
    config: BasesConfig
    encoder: Any

    def __init__(self, config: BasesConfig, bases: dict[Role, Any] | None = None) -> None:
        super().__init__(config, bases)
        if config.pooling != "pooler" and hasattr(self.encoder, "pooler"):
            self.encoder.pooler = None  # it would be trained by nothing
        elif config.pooling == "pooler" and getattr(self.encoder, "pooler", None) is None:
            raise SettingsError(f"the encoder '{config.encoder}' has no pooler; pooling: cls or mean")
        freeze_below(self.encoder, config.encoder_frozen, config.embeddings_frozen)
        self.dropout = nn.Dropout(config.dropout)

    # — reading —

    def read_states(self, ids: Tensor, real: Tensor) -> Tensor:
        """[B, S] → the encoder's states [B, S, d]."""
        return self.encoder(input_ids=ids, attention_mask=real.long()).last_hidden_state

    def pool(self, states: Tensor, real: Tensor) -> Tensor:
        """[B, S, d] → [B, d]"""
        if self.config.pooling == "mean":
            weight = real[..., None].to(states.dtype)
            return (states * weight).sum(1) / weight.sum(1)
        return self.encoder.pooler(states) if self.config.pooling == "pooler" else states[:, 0]

    # — learning —

    def rate_factor(self, name: str, parameter: nn.Parameter) -> float:
        if self.is_new(name) or not name.startswith("encoder."):
            return super().rate_factor(name, parameter)
        layers = layers_of(self.encoder)
        below = (len(layers) - 1 - i for i, layer in enumerate(layers) for p in layer.parameters() if p is parameter)
        return self.config.layer_decay ** next(below, len(layers))


def read_weights(file: Path) -> dict[str, Tensor]:
    try:
        return load_file(file)
    except (OSError, SafetensorError) as error:
        raise DataError(f"{file}: cannot be read ({error})") from None


def layers_of(model: Any) -> nn.ModuleList:
    """The layers of an encoder or decoder, lowest first."""
    count = model.config.num_hidden_layers
    for module in model.modules():
        if isinstance(module, nn.ModuleList) and len(module) == count:
            return module
    raise SettingsError(f"no list of {count} layers was found in a {model.config.model_type}")


def freeze_below(model: Any, lower: int, embeddings: bool = False) -> None:
    """Freeze everything but the layers above the `lower` ones; 0 freezes nothing, or the embeddings alone."""
    layers = layers_of(model)
    if not 0 <= lower <= len(layers):
        raise SettingsError(f"{lower} layers cannot be frozen: a {model.config.model_type} has {len(layers)} here")
    if lower or embeddings:
        model.requires_grad_(False)
        for layer in layers[lower:]:
            layer.requires_grad_(True)
        if getattr(model, "pooler", None) is not None:
            model.pooler.requires_grad_(True)


def _blank(role: Role, bases: dict[str, dict[str, Any]]) -> Any:
    """A base's architecture with new weights."""
    settings = dict(bases[role]["config"])
    config = AutoConfig.for_model(settings.pop("model_type"), **settings)
    auto = AutoModel if role == "encoder" else AutoModelForCausalLM
    return auto.from_config(config, attn_implementation=attention(config, role), dtype=torch.float32)


def _same(base: Base, config: PartsConfig) -> Base:
    """Make sure that a base is the one that the system was trained on."""
    expected = (config.bases or {})[base.role]["checksum"]
    if base.checksum != expected:
        raise DataError(
            f"{base.role} '{base.name}' in {base.folder}: its weights have the checksum {base.checksum[:12]}…, "
            f"but the system was trained on {expected[:12]}…; give it the {base.role} that it was trained on"
        )
    return base
