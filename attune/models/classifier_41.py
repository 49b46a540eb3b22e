"""`classifier-41` (seed 002, section 3.2): one of 41 labels — 32 emotions, 8 intents, neutral — for an utterance.

A linear layer on the pooled state of a pretrained encoder. After each validation that is the best so far, one temperature is
fitted to the validation logits, so that a probability of 0.7 is right about seven times in ten; it is kept in the configuration.
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
from attune.emotion.taxonomy import LABELS, label_id
from attune.errors import DataError
from attune.models import register_system
from attune.models.pretrained import BasesConfig, OnBases
from attune.models.pretrained.tokens import Batch, EncoderTokens


class Classifier41Config(BasesConfig):
    model_type = "attune-classifier-41"

    context_tokens: int = 128
    """Only this many last tokens of an utterance."""
    temperature: float = 1.0
    """The logits are divided by this; fitted on validation."""

    @property
    def measures(self) -> frozenset[str]:
        return super().measures | {"accuracy"}


@dataclass(frozen=True, slots=True)
class LabelledIds:
    """One utterance as ids, and its label if it is known."""

    context: np.ndarray  # [S] int32
    label: int = -1
    response: tuple[int, ...] = ()  # nothing is said

    @property
    def size(self) -> int:
        return len(self.context)


class LabelCodec:
    """Utterances ↔ tensors. An example's utterance is its response, the turn that is labelled."""

    def __init__(self, config: Classifier41Config, tokenizers: dict[str, Any]) -> None:
        self.tokens = EncoderTokens(
            tokenizers["encoder"], config.context_tokens, (config.bases or {})["encoder"]["config"]
        )

    def encode(self, examples: Sequence[Example]) -> list[LabelledIds]:
        """Labelled turns; one without a label cannot be learnt from."""
        items = []
        for example in examples:
            if example.response.label is None:
                raise DataError(f"{example.id}: the turn has no label; classifier-41 learns from labelled utterances")
            items.append(LabelledIds(self.tokens.ids([example.response.text]), label_id(example.response.label)))
        return items

    def encode_texts(self, texts: Sequence[str]) -> list[LabelledIds]:
        return [LabelledIds(self.tokens.ids([text])) for text in texts]

    def encode_contexts(self, contexts: Sequence[Context]) -> list[LabelledIds]:
        """All that the speaker said, as one utterance."""
        return self.encode_texts(
            [" ".join(turn.text for turn in context if turn.role == "speaker") for context in contexts]
        )

    def collate(self, items: Sequence[LabelledIds]) -> Batch:
        return self.tokens.batch([item.context for item in items]) | {
            "label": torch.tensor([item.label for item in items])
        }

    def training_batch(self, items: Sequence[LabelledIds], rng: np.random.Generator) -> Batch:
        return self.collate(items)

    def save(self, folder: Path) -> None:
        self.tokens.tokenizer.save_pretrained(folder / "encoder")


@register_system("classifier-41")
class Classifier41(OnBases):
    config_class = Classifier41Config
    config: Classifier41Config
    codec_class = LabelCodec
    family = "classifier"
    corpus = "empathetic_intents/train_data"
    protocol = "labelled-turns"
    capabilities = frozenset({"label", "perceive"})

    def __init__(self, config: Classifier41Config, bases: Any = None) -> None:
        super().__init__(config, bases)
        self.head = nn.Linear(self.encoder.config.hidden_size, len(LABELS))

    def logits(self, batch: Batch) -> Tensor:
        """[B, 41], as they are before the temperature."""
        states = self.read_states(batch["context"], batch["real"])
        return self.head(self.dropout(self.pool(states, batch["real"])))

    def log_probabilities(self, batch: Batch) -> Tensor:
        """[B, 41], calibrated."""
        return (self.logits(batch) / self.config.temperature).log_softmax(-1)

    def losses(self, batch: Batch, tokens: int, examples: int) -> dict[str, Tensor]:
        logits = self.logits(batch)
        smoothing = self.config.label_smoothing if self.training else 0.0
        loss = F.cross_entropy(logits, batch["label"], label_smoothing=smoothing, reduction="sum") / examples
        right = (logits.argmax(-1) == batch["label"]).sum() / examples
        return {"label": loss, "right": right.detach()}

    @torch.no_grad()
    def calibrate(self, batches: Iterable[Batch]) -> None:
        """Fit the temperature to labelled batches."""
        self.eval()
        pairs = [(self.logits(batch), batch["label"]) for batch in batches]
        self.config.temperature = fit_temperature(torch.cat([a for a, _ in pairs]), torch.cat([b for _, b in pairs]))


def fit_temperature(logits: Tensor, labels: Tensor) -> float:
    """The temperature, from 0.1 to 10, under which the labels are most probable.

    The loss is convex in 1 ÷ temperature, so halving the interval finds it.

    >>> logits = torch.tensor([[9.0, 0.0], [9.0, 0.0], [9.0, 0.0], [9.0, 0.0]])
    >>> round(fit_temperature(logits, torch.tensor([0, 0, 0, 1])), 2)  # right three times in four: ln 3 instead of 9
    8.19
    """
    logits = logits.double()
    low, high = 0.1, 10.0
    for _ in range(40):
        scale = (low * high) ** 0.5
        expected = ((logits * scale).softmax(-1) * logits).sum(-1).mean()
        found = logits.gather(1, labels[:, None]).mean()
        low, high = (low, scale) if expected > found else (scale, high)
    return 1 / (low * high) ** 0.5
