"""Cross-attention for decoders that were trained without any: inserted into their layers, starting as the identity."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from attune.models.layers.attention import Attention

Cache = dict[str, Tensor]


class GatedCrossAttention(nn.Module):
    """x + tanh(gate) · attention(norm(x), memory). The gate starts at 0, so at first nothing changes.

    >>> layer, x = GatedCrossAttention(8, heads=2, memory=6), torch.randn(3, 5, 8)
    >>> cache = {"memory_mask": torch.ones(3, 4, dtype=torch.bool)} | layer.start(torch.randn(3, 4, 6), "0.")
    >>> torch.equal(layer(x, cache, "0."), x)
    True
    """

    def __init__(self, d_model: int, heads: int, memory: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, heads, memory)
        self.gate = nn.Parameter(torch.zeros(1))

    def start(self, memory: Tensor, prefix: str) -> Cache:
        """The keys and values of a memory, for a cache."""
        key, value = self.attention.keys_values(memory)
        return {prefix + "cross_key": key, prefix + "cross_value": value}

    def forward(self, x: Tensor, cache: Cache, prefix: str) -> Tensor:
        mask = cache["memory_mask"][:, None, None, :]
        seen = self.see(self.norm(x), cache[prefix + "cross_key"], cache[prefix + "cross_value"], mask, cache, prefix)
        return x + self.gate.tanh() * seen

    def see(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor, cache: Cache, prefix: str) -> Tensor:
        return self.attention(x, key, value, mask)


class LayerWithMemory(nn.Module):
    """A decoder's layer with gated cross-attention in front of it.

    The keys and values come with each call as `memory`, a cache in which they stand under this layer's `number`; a
    decoder passes arguments that it does not know on to its layers. Without a memory it is the layer alone.
    """

    def __init__(self, layer: nn.Module, number: int, cross: GatedCrossAttention) -> None:
        super().__init__()
        self.layer, self.number, self.cross = layer, number, cross

    def forward(self, hidden_states: Tensor, *args: Any, memory: Cache | None = None, **kwargs: Any) -> Any:
        if memory is not None:
            hidden_states = self.cross(hidden_states, memory, f"{self.number}.")
        return self.layer(hidden_states, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:  # what a decoder asks its layers for
            return getattr(super().__getattr__("layer"), name)


def insert_cross(layers: nn.ModuleList, first: int, make: Callable[[], GatedCrossAttention]) -> None:
    """Put cross-attention in front of the layers from `first` on."""
    for i in range(first, len(layers)):
        layers[i] = LayerWithMemory(layers[i], i, make())


def start_cross(layers: nn.ModuleList, memory: Tensor, real: Tensor) -> Cache:
    """What such layers need of a memory [B, S, ·] and its mask [B, S]."""
    cache = {"memory_mask": real}
    for layer in layers:
        if isinstance(layer, LayerWithMemory):
            cache |= layer.cross.start(memory, f"{layer.number}.")
    return cache
