"""Encoder and decoder stacks of the word-level trunk: one set for every system."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from attune.models.layers.attention import Attention
from attune.models.layers.dropout import Dropout

Norm = Literal["post", "pre"]
Cache = dict[str, Tensor]  # every tensor is batch-first, so that decoding can select and reorder rows


@dataclass(frozen=True, slots=True)
class Shape:
    """What all layers of a system have alike."""

    d_model: int
    heads: int
    ffn: int
    dropout: float = 0.0
    norm: Norm = "post"
    head_norm: bool = False

    def attention(self) -> Attention:
        return Attention(self.d_model, self.heads, normed=self.head_norm)

    def residual(self) -> Residual:
        return Residual(self.d_model, self.dropout, self.norm)

    def last_norm(self) -> nn.Module:
        """What stands behind a stack of layers."""
        return nn.LayerNorm(self.d_model) if self.norm == "pre" else nn.Identity()


class FeedForward(nn.Sequential):
    def __init__(self, d_model: int, ffn: int) -> None:
        super().__init__(nn.Linear(d_model, ffn), nn.ReLU(), nn.Linear(ffn, d_model))


class Residual(nn.Module):
    """Add & norm, after the sub-layer (`post`, as the papers draw it) or before it (`pre`)."""

    def __init__(self, d_model: int, dropout: float, norm: Norm) -> None:
        super().__init__()
        self.norm, self.dropout, self.post = nn.LayerNorm(d_model), Dropout(dropout), norm == "post"

    def enter(self, x: Tensor) -> Tensor:
        return x if self.post else self.norm(x)

    def leave(self, x: Tensor, changed: Tensor) -> Tensor:
        x = x + self.dropout(changed)
        return self.norm(x) if self.post else x


class EncoderLayer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention, self.ffn = shape.attention(), FeedForward(shape.d_model, shape.ffn)
        self.around_attention, self.around_ffn = shape.residual(), shape.residual()

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        y = self.around_attention.enter(x)
        x = self.around_attention.leave(x, self.attention(y, *self.attention.keys_values(y), mask=mask))
        return self.around_ffn.leave(x, self.ffn(self.around_ffn.enter(x)))


class Encoder(nn.Module):
    """[B, S, d] and a mask that is True at real tokens [B, S] → [B, S, d]."""

    def __init__(self, layers: int, shape: Shape) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(shape) for _ in range(layers))
        self.norm = shape.last_norm()

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        mask = None if bool(real.all()) else real[:, None, None, :]
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class DecoderLayer(nn.Module):
    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.attention, self.cross = shape.attention(), shape.attention()
        self.ffn = FeedForward(shape.d_model, shape.ffn)
        self.around_attention, self.around_cross, self.around_ffn = (shape.residual() for _ in range(3))

    def forward(self, x: Tensor, cache: Cache, prefix: str, memory_mask: Tensor | None) -> Tensor:
        """`cache` holds the memory's keys and values; this layer's own past is appended to it."""
        x = self.attend_past(x, cache, prefix)
        x = self.attend_memory(x, cache, prefix, memory_mask)
        return self.around_ffn.leave(x, self.ffn(self.around_ffn.enter(x)))

    def attend_past(self, x: Tensor, cache: Cache, prefix: str) -> Tensor:
        y = self.around_attention.enter(x)
        key, value = self.attention.keys_values(y)
        past = cache.get(prefix + "self_key")
        if past is not None:
            key, value = torch.cat([past, key], 2), torch.cat([cache[prefix + "self_value"], value], 2)
        cache[prefix + "self_key"], cache[prefix + "self_value"] = key, value
        mask, causal = past_mask(x.shape[1], key.shape[2], x.device)
        return self.around_attention.leave(x, self.attention(y, key, value, mask, causal))

    def attend_memory(self, x: Tensor, cache: Cache, prefix: str, mask: Tensor | None) -> Tensor:
        y = self.around_cross.enter(x)
        changed = self.cross(y, cache[prefix + "cross_key"], cache[prefix + "cross_value"], mask)
        return self.around_cross.leave(x, changed)


def past_mask(new: int, total: int, device: torch.device) -> tuple[Tensor | None, bool]:
    """How the last `new` of `total` positions may look back: a mask, or whether plain causal attention says it."""
    if new == total or new == 1:
        return None, new > 1
    return torch.ones(new, total, dtype=torch.bool, device=device).tril(total - new), False


class Decoder(nn.Module):
    """Causal decoder over a memory. `start` projects the memory once; `forward` takes any number of new positions."""

    def __init__(self, layers: int, shape: Shape, layer: type[DecoderLayer] = DecoderLayer) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(shape) for _ in range(layers))
        self.norm = shape.last_norm()

    def start(self, memory: Tensor, real: Tensor) -> Cache:
        cache: Cache = {"memory_mask": real}
        for i, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            cache[f"{i}.cross_key"], cache[f"{i}.cross_value"] = layer.cross.keys_values(memory)
        return cache

    def forward(self, x: Tensor, cache: Cache) -> Tensor:
        """[B, T, d] → [B, T, d]; `cache` is extended in place."""
        real = cache["memory_mask"]
        mask = None if bool(real.all()) else real[:, None, None, :]
        for i, layer in enumerate(self.layers):
            x = layer(x, cache, f"{i}.", mask)
        return self.norm(x)

    def watch(self, x: Tensor, cache: Cache) -> Tensor:
        """[B, T, d] → [B, T, S]: where the last layer looks in the memory, averaged over its heads."""
        mask, last = cache["memory_mask"][:, None, None, :], len(self.layers) - 1
        for i in range(last):
            x = self.layers[i](x, cache, f"{i}.", mask)
        layer = self.layers[last]
        assert isinstance(layer, DecoderLayer)
        x = layer.around_cross.enter(layer.attend_past(x, cache, f"{last}."))
        return layer.cross.weigh(x, cache[f"{last}.cross_key"], mask).mean(1)


class Positions(nn.Module):
    """Sinusoidal position signal, made when first needed and as long as it needs to be. It has no weights."""

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model
        self.table: Tensor | None = None

    def _make(self, length: int, device: torch.device) -> Tensor:
        half = (self.d_model + 1) // 2
        rate = torch.exp(torch.arange(half) * (-math.log(10000.0) / max(half - 1, 1)))
        angle = torch.arange(length)[:, None] * rate[None]
        return torch.stack([angle.sin(), angle.cos()], -1).flatten(1)[:, : self.d_model].contiguous().to(device)

    def forward(self, length: int, device: torch.device, offset: int = 0) -> Tensor:
        """[length, d_model] from position `offset` on."""
        table = self.table
        if table is None or table.device != device or offset + length > table.shape[0]:
            self.table = table = self._make(max(256, 2 * (offset + length)), device)
        return table[offset : offset + length]
