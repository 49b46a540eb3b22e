"""`perceiver`: one pass of a pretrained encoder over the context tells what the speaker feels and what reply to give.

Two linear heads on the pooled state: the emotion, one of 32, and the label of the reply to give, one of 41 (seed 002's
predictor of the response's emotion or intent, section 4). The system `attune` perceives and decides with it. Like
classifier-41, it fits a temperature for each head on validation. Beside the encoder, the words of the context may be heard by
themselves (`attune/emotion/wording.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTION_ID, EMOTIONS, LABEL_ID, LABELS
from attune.emotion.wording import WORDING, Wording
from attune.errors import SettingsError
from attune.models import register_system
from attune.models.classifier_41 import fit_temperature
from attune.models.codec import NO_EMOTION
from attune.models.pretrained import BasesConfig, OnBases, Role
from attune.models.pretrained.lora import add_lora
from attune.models.pretrained.tokens import Batch, EncoderTokens

UNLABELLED = NO_EMOTION


class PerceiverConfig(BasesConfig):
    model_type = "attune-perceiver"

    context_tokens: int = 160
    """Only this many last tokens of the context."""
    lora_rank: int = 0
    """Train the encoder's layers that are not frozen by low-rank adapters (alpha twice the rank) instead of their weights (0: no)."""
    label_weight: float = 0.5
    """Weight of the loss of the label to give, beside the emotion's."""
    words_share: float = 0.0
    """How much the words of a context and their pairs count by themselves in what is perceived; the rest is the encoder's."""
    temperatures: tuple[float, float] = (1.0, 1.0)
    """The logits of the emotion and of the label are divided by these; fitted on validation."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if not 0 <= self.words_share < 1:
            raise SettingsError(f"words_share must be from 0 to below 1, not {self.words_share}")

    def from_base(self, role: Role) -> bool:
        return super().from_base(role) or self.lora_rank > 0

    @property
    def measures(self) -> frozenset[str]:
        return super().measures | {"emotion_accuracy", "label_accuracy"}


@dataclass(frozen=True, slots=True)
class Perceived:
    """One context as ids, and what is to be perceived in it if it is known."""

    context: np.ndarray  # [S] int32
    emotion: int = UNLABELLED
    label: int = UNLABELLED
    response: tuple[int, ...] = ()  # nothing is said

    @property
    def size(self) -> int:
        return len(self.context)


class PerceiverCodec:
    """Contexts ↔ tensors."""

    vocabulary = "?"

    def __init__(self, config: PerceiverConfig, tokenizers: dict[str, Any]) -> None:
        base = (config.bases or {})["encoder"]["config"]
        self.tokens = EncoderTokens(tokenizers["encoder"], config.context_tokens, base)
        self.wording: Wording | None = None  # what the words tell by themselves, if they are to be heard

    def encode(self, examples: Sequence[Example]) -> list[Perceived]:
        return [
            Perceived(
                self.tokens.ids([turn.text for turn in example.context]),
                EMOTION_ID.get(example.emotion or "", UNLABELLED),
                LABEL_ID.get(example.response.label or "", UNLABELLED),
            )
            for example in examples
        ]

    def encode_contexts(self, contexts: Sequence[Context]) -> list[Perceived]:
        return [Perceived(self.tokens.ids([turn.text for turn in context])) for context in contexts]

    def collate(self, items: Sequence[Perceived]) -> Batch:
        return self.tokens.batch([item.context for item in items]) | {
            "emotion": torch.tensor([item.emotion for item in items]),
            "label": torch.tensor([item.label for item in items]),
        }

    def training_batch(self, items: Sequence[Perceived], rng: np.random.Generator) -> Batch:
        return self.collate(items)

    def save(self, folder: Path) -> None:
        self.tokens.tokenizer.save_pretrained(folder / "encoder")
        if self.wording is not None:
            self.wording.save(folder / WORDING)


@register_system("perceiver")
class Perceiver(OnBases):
    config_class = PerceiverConfig
    config: PerceiverConfig
    codec_class = PerceiverCodec
    family = "perceiver"
    capabilities = frozenset({"perceive", "decide"})
    turn_labels = True

    def __init__(self, config: PerceiverConfig, bases: Any = None) -> None:
        super().__init__(config, bases)
        if config.lora_rank:
            add_lora(self.encoder, config.lora_rank, config.encoder_frozen)
        width = self.encoder.config.hidden_size
        self.emotion, self.label = nn.Linear(width, len(EMOTIONS)), nn.Linear(width, len(LABELS))

    def logits(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """[B, 32] of the emotion and [B, 41] of the label to give, as they are before the temperatures."""
        states = self.read_states(batch["context"], batch["real"])
        pooled = self.dropout(self.pool(states, batch["real"]))
        return self.emotion(pooled), self.label(pooled)

    def perceive(self, batch: Batch) -> Tensor:
        """[B, 32], calibrated."""
        return self.logits(batch)[0] / self.config.temperatures[0]

    def decide(self, batch: Batch) -> Tensor:
        """[B, 41], calibrated."""
        return self.logits(batch)[1] / self.config.temperatures[1]

    def losses(self, batch: Batch, tokens: int, examples: int) -> dict[str, Tensor]:
        emotion, label = self.logits(batch)
        smoothing = self.config.label_smoothing if self.training else 0.0

        def wrong(logits: Tensor, gold: Tensor) -> Tensor:
            found = F.cross_entropy(logits, gold, ignore_index=UNLABELLED, label_smoothing=smoothing, reduction="sum")
            return found / examples

        return {
            "emotion": wrong(emotion, batch["emotion"]),
            "right": (emotion.argmax(-1) == batch["emotion"]).sum().detach() / examples,
            "choice": self.config.label_weight * wrong(label, batch["label"]),
            "right_choice": (label.argmax(-1) == batch["label"]).sum().detach() / examples,
        }

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Batch]) -> None:
        """Fit both temperatures to labelled batches."""
        self.eval()
        read = [(*self.logits(batch), batch["emotion"], batch["label"]) for batch in batches]
        emotion, label, felt, given = (torch.cat(parts) for parts in zip(*read, strict=True))
        self.config.temperatures = (
            fit_temperature(emotion[felt != UNLABELLED], felt[felt != UNLABELLED]),
            fit_temperature(label[given != UNLABELLED], given[given != UNLABELLED]),
        )
