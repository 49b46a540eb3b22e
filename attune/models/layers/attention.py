"""Multi-head attention on `scaled_dot_product_attention`, with a cache for decoding."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Attention(nn.Module):
    """Attention of queries over keys and values, split into heads.

    Keys and values are projected by :meth:`keys_values`, so that a decoder projects its memory once and
    its own past never again. `normed` gives each head's queries and keys a layer norm (Henry et al., 2020), without which
    a query that is the same in every example may soon look at one position alone, where it learns nothing more.

    >>> layer = Attention(8, heads=2)
    >>> x = torch.zeros(3, 5, 8)
    >>> layer(x, *layer.keys_values(x)).shape
    torch.Size([3, 5, 8])
    """

    def __init__(self, d_model: int, heads: int, memory: int | None = None, normed: bool = False) -> None:
        """`memory` is the width of what is looked at, where it is another."""
        super().__init__()
        if d_model % heads:
            raise ValueError(f"d_model {d_model} is not divisible by {heads} heads")
        self.heads = heads
        self.query = nn.Linear(d_model, d_model)
        self.key_value = nn.Linear(memory or d_model, 2 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.query_norm, self.key_norm = (
            nn.LayerNorm(d_model // heads, bias=False) if normed else nn.Identity() for _ in range(2)
        )

    def keys_values(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, S, d] → keys and values, each [B, heads, S, d / heads]."""
        key, value = self.key_value(x).chunk(2, dim=-1)
        return self.key_norm(self._split(key)), self._split(value)

    def queries(self, x: Tensor) -> Tensor:
        """[B, T, d] → [B, heads, T, d / heads]."""
        return self.query_norm(self._split(self.query(x)))

    def forward(
        self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, causal: bool = False
    ) -> Tensor:
        """`mask` is True where a query may look, broadcastable to [B, heads, T, S]."""
        if torch.is_autocast_enabled("cpu") and not causal:  # two plain products are faster there than torch's one step
            mixed = self.weigh(x, key, mask) @ value
        else:
            query = self.queries(x)
            with torch.autocast("cpu", enabled=False):  # its backward pass is slower there in 16 bits
                states = query.float(), key.float(), value.float()
                mixed = F.scaled_dot_product_attention(*states, attn_mask=mask, is_causal=causal)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def look(self, x: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What is seen, before the output layer [B, T, d], and the weights averaged over heads [B, T, S]."""
        weights = self.weigh(x, key, mask)
        return (weights @ value).transpose(1, 2).flatten(2), weights.mean(1)

    def weigh(self, x: Tensor, key: Tensor, mask: Tensor | None = None) -> Tensor:
        """The attention weights themselves [B, heads, T, S], where they are looked at."""
        scores = self.queries(x) @ key.transpose(2, 3) / math.sqrt(key.shape[-1])
        return (scores if mask is None else scores.masked_fill(~mask, -torch.inf)).softmax(-1)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
