"""Cross-attention for decoders that were trained without any: inserted into their layers, starting as the identity."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from attune.models.layers.attention import Attention


class GatedCrossAttention(nn.Module):
    """x + tanh(gate) · attention(norm(x), memory). The gate starts at 0, so at first nothing changes.

    >>> layer, x = GatedCrossAttention(8, heads=2, memory=6), torch.randn(3, 5, 8)
    >>> torch.equal(layer(x, *layer.attention.keys_values(torch.randn(3, 4, 6))), x)
    True
    """

    def __init__(self, d_model: int, heads: int, memory: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.attention = Attention(d_model, heads, memory)
        self.gate = nn.Parameter(torch.zeros(1))

    def forward(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return x + self.gate.tanh() * self.attention(self.norm(x), key, value, mask)


class LayerWithMemory(nn.Module):
    """A decoder's layer with gated cross-attention in front of it.

    The keys and values come with each call as `memory`, a cache in which they stand under this layer's `number`; a
    decoder passes arguments that it does not know on to its layers.
    """

    def __init__(self, layer: nn.Module, number: int, cross: GatedCrossAttention) -> None:
        super().__init__()
        self.layer, self.number, self.cross = layer, number, cross

    def forward(self, hidden_states: Tensor, *args: Any, memory: dict[str, Tensor], **kwargs: Any) -> Any:
        key, value = memory[f"{self.number}.cross_key"], memory[f"{self.number}.cross_value"]
        seen = self.cross(hidden_states, key, value, memory["memory_mask"][:, None, None, :])
        return self.layer(seen, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:  # what a decoder asks its layers for
            return getattr(super().__getattr__("layer"), name)
