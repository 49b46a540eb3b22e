"""`moel`: the Mixture of Empathetic Listeners (FACTS A.3; baseline of seeds 000, 001 and 004).

An emotion gate on the CLS state chooses, for each context, a few of 32 listeners — one decoder layer for each emotion. Their
outputs are added by the gate's weights to that of a listener all emotions share; a meta decoder turns the sum into words.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from attune.emotion.taxonomy import EMOTIONS
from attune.errors import SettingsError
from attune.models import register_system
from attune.models.codec import Batch
from attune.models.layers.blocks import Cache
from attune.models.layers.experts import Listeners, StackedLinear, StackedNorm
from attune.models.trunk import Gate, Trunk, TrunkConfig

SHARED = len(EMOTIONS)  # the listener of all emotions stands behind those of each
ORACLE_FLOOR = 1e-4


class MoelConfig(TrunkConfig):
    """Settings of `moel`. The trunk's decoder is the meta decoder."""

    model_type = "attune-moel"

    emotion_head: bool = True
    top_k: int = 5
    """Listeners that the gate keeps for each context."""
    listener_depth: int = 40
    """Width of a listener's queries, keys and values, over all heads."""
    listener_ffn: int = 160
    """Width inside a listener's feed-forward part."""
    oracle_steps: float = 10_000
    """Training steps over which the gold emotion's share of the gate decays by e; 0 never shows it."""

    def __post_init__(self, **kwargs: Any) -> None:
        super().__post_init__(**kwargs)
        if not 1 <= self.top_k <= len(EMOTIONS):
            raise SettingsError(f"top_k must be 1…{len(EMOTIONS)}, not {self.top_k}")
        for name in ("d_model", "listener_depth", "listener_ffn"):
            if getattr(self, name) % 4:
                raise SettingsError(f"{name} must be a multiple of 4 (grouped products), not {getattr(self, name)}")
        if self.listener_depth % self.heads:
            raise SettingsError(f"listener_depth {self.listener_depth} is not divisible by {self.heads} heads")


@register_system("moel")
class Moel(Trunk):
    config_class = MoelConfig
    config: MoelConfig
    steps: Tensor

    def __init__(self, config: MoelConfig) -> None:
        super().__init__(config)
        self.emotion = nn.Linear(config.d_model, len(EMOTIONS), bias=False)  # the gate: a key for each listener
        self.listeners = Listeners(
            SHARED + 1,
            config.d_model,
            config.heads,
            config.listener_depth,
            config.listener_ffn,
            config.dropout,
            config.norm,
        )
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, StackedLinear | StackedNorm):
            module.reset()
        else:
            super()._init_weights(module)

    def encode(self, batch: Batch) -> dict[str, Tensor]:
        read = super().encode(batch)
        read["listeners"], read["weights"] = self.gate(read["emotion"])
        if self.training and "emotion" in batch:
            self._show_gold(read, batch["emotion"])
        return read

    def gate(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        """The listeners [B, k + 1] of each context and their weights: a softmax over the best k, and 1 for the shared one."""
        best = logits.topk(self.config.top_k)
        shared = best.indices.new_full((len(logits), 1), SHARED)
        weights = torch.cat([best.values.softmax(-1), torch.ones_like(best.values[:, :1])], 1)
        return torch.cat([best.indices, shared], 1), weights

    def oracle_share(self) -> float:
        """How often the gate is the gold emotion at this step of training."""
        if not self.config.oracle_steps:
            return 0.0
        return ORACLE_FLOOR + (1 - ORACLE_FLOOR) * math.exp(-int(self.steps) / self.config.oracle_steps)

    def _show_gold(self, read: dict[str, Tensor], gold: Tensor) -> None:
        """In training, early on, most examples go to the listener of their gold emotion alone."""
        shown = (torch.rand(len(gold), device=gold.device) < self.oracle_share()) & (gold >= 0)
        only = torch.zeros_like(read["weights"])
        only[:, [0, -1]] = 1.0
        read["weights"] = torch.where(shown[:, None], only, read["weights"])
        first = torch.where(shown, gold, read["listeners"][:, 0])
        read["listeners"] = torch.cat([first[:, None], read["listeners"][:, 1:]], 1)

    def start(self, read: dict[str, Tensor]) -> Cache:
        return super().start(read) | self.listeners.start(read["memory"], read["listeners"], read["weights"])

    def decoder_input(self, ids: Tensor, cache: Cache) -> Tensor:
        """The meta decoder reads what the listeners make of the words."""
        return self.listeners(super().decoder_input(ids, cache), cache)

    @property
    def capabilities(self) -> frozenset[str]:
        return super().capabilities | {"gates"}

    def gates(self, read: dict[str, Tensor]) -> list[Gate]:
        kept, weights = read["listeners"][:, :-1], read["weights"][:, :-1]
        every = weights.new_zeros(len(weights), len(EMOTIONS)).scatter(1, kept, weights)
        note = "The weights of the listeners that the gate kept. One that all emotions share has weight 1 beside them."
        return [Gate("Listeners", note, every)]

    def losses(self, batch: Batch, tokens: int, examples: int) -> dict[str, Tensor]:
        terms = super().losses(batch, tokens, examples)
        if self.training:
            self.steps += 1
        return terms
