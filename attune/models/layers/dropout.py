"""Dropout whose mask is drawn quickly on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

LEVELS = 65_536  # a share is kept to 16 bits of its probability


class Dropout(nn.Dropout):
    """`nn.Dropout` that takes four elements from each random number on a CPU, where drawing them costs the most.

    >>> layer = Dropout(0.5)
    >>> set(layer(torch.ones(1000)).tolist()) == {0.0, 2.0}
    True
    >>> layer.eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or not 0 < self.p < 1 or input.device.type != "cpu":
            return super().forward(input)
        return _Dropped.apply(input, self.p)


class _Dropped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, share: float) -> Tensor:
        numbers = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
        levels = numbers.view(torch.int16)[: x.numel()].view(x.shape)
        kept = (levels >= round(share * LEVELS) - LEVELS // 2).to(x.dtype).mul_(1 / (1 - share))
        ctx.save_for_backward(kept)
        return x * kept

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (kept,) = ctx.saved_tensors
        return gradient * kept, None
