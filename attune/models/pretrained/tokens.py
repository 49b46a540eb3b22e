"""Texts as an encoder reads them: `<CLS> u1 <SEP> u2 <SEP> …`, in its own tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attune.errors import SettingsError

Batch = dict[str, Tensor]


class EncoderTokens:
    """Turns ↔ ids of one encoder. Of what is too long the beginning is left out."""

    def __init__(self, tokenizer: Any, longest: int, base: dict[str, Any]) -> None:
        positions = int(base.get("max_position_embeddings") or longest + 2) - 2  # RoBERTa counts from 2
        if not 2 <= longest <= positions:
            raise SettingsError(f"context_tokens must be from 2 to {positions} with this encoder, not {longest}")
        self.tokenizer, self.longest = tokenizer, longest
        self.first, self.end, self.padding = tokenizer.cls_token_id, tokenizer.sep_token_id, tokenizer.pad_token_id
        if None in (self.first, self.end, self.padding):
            raise SettingsError("the encoder's tokenizer has no CLS, SEP or PAD token")
        self._ids = lru_cache(maxsize=500_000)(self._ids_of)

    def _ids_of(self, text: str) -> np.ndarray:
        encoding = self.tokenizer.backend_tokenizer.encode(text, add_special_tokens=False)
        return np.array([*encoding.ids, self.end], dtype=np.int32)

    def ids(self, texts: Sequence[str]) -> np.ndarray:
        """[S] int32: the texts of one context, an end behind each."""
        said = np.concatenate([self._ids(text) for text in texts])
        return np.append(np.int32(self.first), said[-(self.longest - 1) :])

    def batch(self, rows: Sequence[np.ndarray]) -> Batch:
        """`context` [B, S] and `real` [B, S]."""
        return {"context": pad(rows, self.padding), "real": real(rows)}


def pad(rows: Sequence[np.ndarray], value: int) -> Tensor:
    """Ids of different lengths as one tensor [rows, longest].

    >>> pad([np.array([1, 2]), np.array([3])], -1).tolist()
    [[1, 2], [3, -1]]
    """
    out = np.full((len(rows), max(len(row) for row in rows)), value, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


def real(rows: Sequence[np.ndarray]) -> Tensor:
    """[rows, longest]: True where there is an id."""
    lengths = torch.tensor([[len(row)] for row in rows])
    return torch.arange(int(lengths.max()))[None] < lengths
