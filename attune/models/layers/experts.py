"""Many decoder layers side by side, of which each example uses a few: batched products over stacked weights."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attune.models.layers.blocks import Cache, Norm, past_mask
from attune.models.layers.dropout import Dropout

# What an expert is given: rows sorted by expert, so that the rows of each expert lie together.
# `experts` [P] names the expert of each row of [P, T, d]; it ascends.


class StackedLinear(nn.Module):
    """A linear layer for each expert; one grouped product for all rows, whichever expert they belong to.

    >>> layer = StackedLinear(experts=3, size_in=4, size_out=8)
    >>> layer(torch.zeros(5, 2, 4), experts=torch.tensor([0, 0, 2, 2, 2])).shape
    torch.Size([5, 2, 8])
    """

    def __init__(self, experts: int, size_in: int, size_out: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(experts, size_in, size_out))
        self.bias = nn.Parameter(torch.empty(experts, size_out))
        self.reset()

    def reset(self) -> None:
        """Xavier's uniform start, each expert as if it were alone."""
        bound = math.sqrt(6 / (self.weight.shape[1] + self.weight.shape[2]))
        nn.init.uniform_(self.weight, -bound, bound)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, experts: Tensor) -> Tensor:
        ends = torch.bincount(experts, minlength=len(self.weight)).cumsum(0) * x.shape[1]
        rows = x.flatten(0, 1).to(self.weight.dtype)  # autocast does not know this product: it stays in full precision
        y = F.grouped_mm(rows, self.weight, offs=ends.to(torch.int32))
        return y.unflatten(0, x.shape[:2]) + self.bias[experts][:, None]


class StackedNorm(nn.Module):
    """A layer norm for each expert."""

    def __init__(self, experts: int, size: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.empty(experts, size)), nn.Parameter(torch.empty(experts, size))
        self.reset()

    def reset(self) -> None:
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor, experts: Tensor) -> Tensor:
        normal = F.layer_norm(x, x.shape[-1:])
        return torch.addcmul(self.bias[experts][:, None], normal, self.weight[experts][:, None])


class Listeners(nn.Module):
    """Decoder layers (self-attention, attention over the memory, feed-forward part) in a stack, softly combined.

    `start` is told which listeners each example uses and with what weight ([B, k] both); `forward` gives the weighted
    sum of their outputs. What has no weight costs nothing: it is not computed.
    """

    def __init__(
        self, count: int, d_model: int, heads: int, depth: int, ffn: int, dropout: float = 0.0, norm: Norm = "post"
    ) -> None:
        super().__init__()
        self.heads, self.post, self.dropout = heads, norm == "post", Dropout(dropout)
        self.self_query, self.cross_query = (StackedLinear(count, d_model, depth) for _ in range(2))
        self.self_key_value, self.cross_key_value = (StackedLinear(count, d_model, 2 * depth) for _ in range(2))
        self.self_out, self.cross_out = (StackedLinear(count, depth, d_model) for _ in range(2))
        self.widen, self.narrow = StackedLinear(count, d_model, ffn), StackedLinear(count, ffn, d_model)
        self.self_norm, self.cross_norm, self.ffn_norm = (StackedNorm(count, d_model) for _ in range(3))

    def start(self, memory: Tensor, listeners: Tensor, weights: Tensor) -> Cache:
        """The memory's keys and values for each example's listeners [B, k, heads, S, ·]."""
        order, experts = by_expert(listeners, weights != 0)
        key, value = self.cross_key_value(memory[order // listeners.shape[1]], experts).chunk(2, -1)
        return {
            "listeners": listeners,
            "listener_weights": weights,
            "listeners.cross_key": in_order(self._split(key), order, listeners),
            "listeners.cross_value": in_order(self._split(value), order, listeners),
        }

    def forward(self, x: Tensor, cache: Cache) -> Tensor:
        """[B, T, d] → [B, T, d]; `cache` is extended in place."""
        listeners = cache["listeners"]
        order, experts = by_expert(listeners, cache["listener_weights"] != 0)
        rows = order // listeners.shape[1]
        y = x[rows]  # [P, T, d]

        def around(y: Tensor, norm: StackedNorm, part: Callable[[Tensor], Tensor]) -> Tensor:
            # dropout is drawn once for an example: its listeners lose the same numbers
            kept = self.dropout(torch.ones_like(x))[rows] if self.training and self.dropout.p else 1.0
            if self.post:
                return norm(y + kept * part(y), experts)
            return y + kept * part(norm(y, experts))

        y = around(y, self.self_norm, lambda z: self._attend_past(z, cache, order, experts))
        y = around(y, self.cross_norm, lambda z: self._attend_memory(z, cache, order, experts))
        y = around(y, self.ffn_norm, lambda z: self.narrow(self.widen(z, experts).relu(), experts))
        weights = cache["listener_weights"].flatten()[order][:, None, None]
        return torch.zeros_like(x).index_add(0, rows, y * weights)

    def _attend_past(self, x: Tensor, cache: Cache, order: Tensor, experts: Tensor) -> Tensor:
        listeners = cache["listeners"]
        key, value = (self._split(part) for part in self.self_key_value(x, experts).chunk(2, -1))
        if "listeners.self_key" in cache:
            key = torch.cat([cache["listeners.self_key"].flatten(0, 1)[order], key], 2)
            value = torch.cat([cache["listeners.self_value"].flatten(0, 1)[order], value], 2)
        cache["listeners.self_key"] = in_order(key, order, listeners)
        cache["listeners.self_value"] = in_order(value, order, listeners)
        mask, causal = past_mask(x.shape[1], key.shape[2], x.device)
        query = self._split(self.self_query(x, experts))
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=causal)
        return self.self_out(mixed.transpose(1, 2).flatten(2), experts)

    def _attend_memory(self, x: Tensor, cache: Cache, order: Tensor, experts: Tensor) -> Tensor:
        rows = order // cache["listeners"].shape[1]
        query = self._split(self.cross_query(x, experts))
        key, value = (cache[f"listeners.cross_{name}"].flatten(0, 1)[order] for name in ("key", "value"))
        mask = cache["memory_mask"][rows][:, None, None]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return self.cross_out(mixed.transpose(1, 2).flatten(2), experts)

    def _split(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.heads, -1)).transpose(1, 2)


def by_expert(chosen: Tensor, used: Tensor) -> tuple[Tensor, Tensor]:
    """The places of those of [B, k] choices that are `used`, sorted by expert [P], and the expert at each.

    >>> used = torch.tensor([[True, True], [False, True]])
    >>> [part.tolist() for part in by_expert(torch.tensor([[2, 0], [1, 2]]), used)]
    [[1, 0, 3], [0, 2, 2]]
    """
    places = used.flatten().nonzero().squeeze(1)
    experts, order = chosen.flatten()[places].sort(stable=True)
    return places[order], experts


def in_order(x: Tensor, order: Tensor, chosen: Tensor) -> Tensor:
    """Rows sorted by expert [P, …] → back in the order of the choices [B, k, …]; zeros for those that are not used."""
    return x.new_zeros(chosen.numel(), *x.shape[1:]).index_copy(0, order, x).unflatten(0, chosen.shape)
