"""The mean of the weights over the last steps: often a little better on new data than the weights of any one step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class Averaged(nn.Module):
    """A running mean of parameters, in which a step counts `decay` times as much as the one after it.

    The first steps follow the weights more closely, so that a short training does not remember where it began.

    >>> weight = nn.Parameter(torch.ones(1))
    >>> averaged = Averaged([weight], 0.5)
    >>> _ = weight.data.fill_(2.0)
    >>> averaged.update()
    >>> with averaged.shown():
    ...     1.0 < weight.item() < 2.0
    True
    >>> weight.item()
    2.0
    """

    steps: Tensor

    def __init__(self, weights: Sequence[nn.Parameter], decay: float) -> None:
        super().__init__()
        self.decay, self.weights = decay, list(weights)
        self.means = [weight.detach().clone() for weight in weights]
        for place, mean in enumerate(self.means):
            self.register_buffer(f"mean_{place}", mean)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are after a step."""
        self.steps += 1
        steps = int(self.steps)
        decay = min(self.decay, steps / (10 + steps))
        torch._foreach_lerp_(self.means, [weight.detach() for weight in self.weights], 1 - decay)

    @contextmanager
    def shown(self) -> Iterator[None]:
        """The model has the mean instead of its weights, within this."""
        kept = [weight.detach().clone() for weight in self.weights]
        self._put(self.means)
        try:
            yield
        finally:
            self._put(kept)

    @torch.no_grad()
    def _put(self, values: Sequence[Tensor]) -> None:
        for weight, value in zip(self.weights, values, strict=True):
            weight.copy_(value)
