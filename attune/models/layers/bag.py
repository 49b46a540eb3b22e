"""A fastText-style classifier: the mean of word and word-pair vectors, then one linear layer."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class BagClassifier(nn.Module):
    """Seed 003's label predictor. Word pairs share hash buckets behind the vocabulary.

    >>> bag = BagClassifier(words=10, buckets=8, size=4, labels=3)
    >>> ids = torch.tensor([[5, 6, 0]])
    >>> bag(ids, ids > 0).shape
    torch.Size([1, 3])
    """

    def __init__(self, words: int, buckets: int, size: int, labels: int) -> None:
        super().__init__()
        self.words, self.buckets = words, buckets
        self.vectors = nn.Embedding(words + buckets, size)
        self.out = nn.Linear(size, labels)
        nn.init.uniform_(self.vectors.weight, -1 / size, 1 / size)

    def represent(self, ids: Tensor, real: Tensor) -> Tensor:
        """[B, S] ids and a mask → [B, size]: the mean over words and pairs of neighbours."""
        pairs = (ids[:, :-1] * 1_000_003 + ids[:, 1:]) % self.buckets + self.words
        both = torch.cat([ids, pairs], 1)
        weights = torch.cat([real, real[:, :-1] & real[:, 1:]], 1).to(self.vectors.weight.dtype)
        weights = weights / weights.sum(1, keepdim=True).clamp_min(1)
        return nn.functional.embedding_bag(both, self.vectors.weight, per_sample_weights=weights, mode="sum")

    def forward(self, ids: Tensor, real: Tensor) -> Tensor:
        """Label logits [B, labels]."""
        return self.out(self.represent(ids, real))
