"""Attention of the vertices of a graph over their neighbours."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from attune.models.layers.dropout import Dropout


class GraphAttention(nn.Module):
    """Seed 001, Eqs. 3–4: each vertex adds what its neighbours tell it, head by head.

    >>> layer = GraphAttention(8, heads=2)
    >>> x, nobody = torch.randn(1, 3, 8), torch.zeros(1, 3, 3, dtype=torch.bool)
    >>> torch.equal(layer(x, nobody), x)
    True
    """

    def __init__(self, d_model: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads, self.dropout = heads, Dropout(dropout)
        self.query, self.key, self.value = (nn.Linear(d_model, d_model, bias=False) for _ in range(3))

    def weigh(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """[B, heads, N, N]: exactly zero where there is no edge, so all zero for a vertex without neighbours."""
        query, key = self._split(self.query(x)), self._split(self.key(x))
        edges = adjacency[:, None]
        scores = query @ key.transpose(2, 3) / math.sqrt(key.shape[-1])
        return scores.masked_fill(~edges, torch.finfo(scores.dtype).min).softmax(-1) * edges

    def forward(self, x: Tensor, adjacency: Tensor) -> Tensor:
        """[B, N, d] vertices; `adjacency[b, i, j]` is True where i attends to j."""
        heard = self.weigh(x, adjacency) @ self._split(self.value(x))
        return x + self.dropout(heard.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
