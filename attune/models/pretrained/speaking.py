"""A pretrained causal decoder behind our one decoding path: `start`, `decode`, `scores` over batch-first caches.

A decoder reads a prefix (of any length, or none) and then says the response. Prefixes of a batch are padded on the right and
the pads hidden, and every token has the position that it would have alone, so that a batch changes nothing.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, EncoderDecoderCache
from transformers.cache_utils import DynamicLayer

from attune.models.layers.loss import smoothed_nll

Cache = dict[str, Tensor]
IGNORE = -100  # in targets: nothing to say here


class Speaks:
    """For a model with a `decoder`. With `own_cross`, the decoder has cross-attention of its own over `cache["memory"]`."""

    decoder: Any
    own_cross = False

    def start(self, read: Cache) -> Cache:
        """A fresh state over what was read: `prefix` and `prefix_real` [B, P], or what :meth:`read_ahead` left of them."""
        return {name: value for name, value in read.items() if name.startswith(("prefix", "past."))}

    def decode(self, ids: Tensor, cache: Cache) -> Tensor:
        """Hidden states [B, T, d] of new positions; `cache` is extended."""
        return self._states(ids, cache, keep=True)

    def scores(self, hidden: Tensor, cache: Cache) -> Tensor:
        """Logits of the last positions' states [B, d] → [B, V]."""
        return self.decoder.get_output_embeddings()(hidden)

    def token_nll(self, batch: Cache, read: Cache, smoothing: float) -> tuple[Tensor, Tensor]:
        """Summed training loss over the response's tokens and each token's NLL; logits are made for these alone."""
        return self.nll_of(self.states(batch["response"], self.start(read)), batch["target"], smoothing)

    def nll_of(self, hidden: Tensor, target: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        """The same of states that are there already."""
        wanted = target != IGNORE
        head = self.decoder.get_output_embeddings()
        return smoothed_nll(hidden[wanted], head.weight, head.bias, target[wanted], smoothing)

    def read_ahead(self, ids: Tensor, real: Tensor, before: Cache | None = None) -> tuple[Tensor, Cache]:
        """Read a prefix on its own: its states [B, P, d], and what `start` needs to go on behind it (or this, as `before`)."""
        cache = {name.removeprefix("past."): value for name, value in (before or {}).items()}
        real = torch.cat([cache["seen"], real], 1) if before else real
        past = _filled(cache, "key", "value")
        out = self.decoder.base_model(
            input_ids=ids,
            attention_mask=self._mask(real, ids.shape[1]),
            position_ids=_positions(real, ids.shape[1]),
            past_key_values=past,
            use_cache=True,
        )
        kept = {"seen": real}
        self._remember(past, kept)
        return out.last_hidden_state, {f"past.{name}": value for name, value in kept.items()}

    def states(self, ids: Tensor, cache: Cache) -> Tensor:
        """Hidden states [B, T, d] of a whole response."""
        return self._states(ids, cache, keep=False)

    def _states(self, ids: Tensor, cache: Cache, keep: bool) -> Tensor:
        new = ids.shape[1]
        here = torch.ones_like(ids, dtype=torch.bool)
        if "past.seen" in cache and "seen" not in cache:  # the prefix was read ahead
            cache |= {name.removeprefix("past."): cache[name] for name in cache if name.startswith("past.")}
        if "seen" in cache:
            keep, real = True, torch.cat([cache["seen"], here], 1)
        else:  # the first call reads the prefix too
            ids, real = torch.cat([cache["prefix"], ids], 1), torch.cat([cache["prefix_real"], here], 1)
        count = ids.shape[1]
        past = self._past(cache) if keep else None
        out = self.decoder.base_model(
            input_ids=ids,
            attention_mask=self._mask(real, count),
            position_ids=_positions(real, count),
            past_key_values=past,
            use_cache=keep,
            **self.memory_arguments(cache),
        )
        if past is not None:
            self._remember(past, cache)
            cache["seen"] = real
        return out.last_hidden_state[:, -new:]

    def _mask(self, real: Tensor, count: int) -> Tensor:
        """:func:`causal_mask` as the decoder's attention takes it: transformers' own in steps adds a mask, whatever it is of."""
        mask = causal_mask(real, count)
        if self.decoder.config._attn_implementation != "eager":
            return mask
        kind = self.decoder.dtype
        return torch.zeros(mask.shape, dtype=kind, device=mask.device).masked_fill(~mask, torch.finfo(kind).min)

    def memory_arguments(self, cache: Cache) -> dict[str, Any]:
        """What the decoder is given beside the tokens."""
        return {}

    def _past(self, cache: Cache) -> Any:
        """The cache as transformers wants it."""
        past = _filled(cache, "key", "value")
        return EncoderDecoderCache(past, _filled(cache, "cross_key", "cross_value")) if self.own_cross else past

    def _remember(self, past: Any, cache: Cache) -> None:
        for i, layer in enumerate((past.self_attention_cache if self.own_cross else past).layers):
            cache[f"{i}.key"], cache[f"{i}.value"] = layer.keys, layer.values
        if self.own_cross:
            for i, layer in enumerate(past.cross_attention_cache.layers):
                cache[f"{i}.cross_key"], cache[f"{i}.cross_value"] = layer.keys, layer.values


def _positions(real: Tensor, count: int) -> Tensor:
    """[B, count]: the places that the last tokens would have without the pads."""
    return (real.cumsum(1) - 1).clamp_min(0)[:, real.shape[1] - count :]


def causal_mask(real: Tensor, count: int) -> Tensor:
    """[B, 1, count, total]: the last `count` positions look at themselves and at what is real before them.

    >>> causal_mask(torch.tensor([[True, False, True]]), 2).int().tolist()
    [[[[1, 1, 0], [1, 0, 1]]]]
    """
    total = real.shape[1]
    place = torch.arange(total, device=real.device)
    back = place[None, :] <= place[total - count :, None]
    same = place[None, :] == place[total - count :, None]  # a pad sees itself, or its attention would be over nothing
    return ((real[:, None, :] & back) | same)[:, None]


def _filled(cache: Cache, key: str, value: str) -> DynamicCache:
    """A cache of transformers around our tensors; nothing is copied."""
    past = DynamicCache()
    while (name := f"{len(past.layers)}.{key}") in cache:
        layer = DynamicLayer()
        layer.lazy_initialization(cache[name], cache[name])
        layer.keys, layer.values = cache[name], cache[f"{len(past.layers)}.{value}"]
        past.layers.append(layer)
    return past
