"""Attention whose heads share keys and values in groups, without a copy of these for each head."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.masking_utils import AttentionMaskInterface, eager_mask

GROUPED = "attune-grouped"  # its name in transformers


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[Tensor, Tensor]:
    """`query` [B, H, T, d] on `key` and `value` [B, G, S, d], where H is a multiple of G; → [B, T, H, d] and the weights.

    The queries of a group stand below each other, so that one product serves them all. The mask [B, 1, T, S] tells what is seen,
    or is added.
    """
    rows, heads, new, width = query.shape
    groups, seen = key.shape[1], key.shape[2]
    scores = query.reshape(rows, groups, -1, width) @ key.transpose(-1, -2) * (scaling or width**-0.5)
    scores = scores.view(rows, heads, new, seen)
    if attention_mask is not None:
        mask = attention_mask[..., :seen]
        scores = scores.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1, dtype=torch.float32).to(query.dtype)
    if dropout and module.training:
        weights = nn.functional.dropout(weights, dropout)
    found = weights.view(rows, groups, -1, seen) @ value
    return found.view(rows, heads, new, width).transpose(1, 2).contiguous(), weights


AttentionInterface.register(GROUPED, grouped_attention)
AttentionMaskInterface.register(GROUPED, eager_mask)
