"""Training steps whose time is taken, for benchmarks that compare ways of training."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from torch import Tensor


class Stepping(ABC):
    """One way of training: a model with its optimiser, batches, and the time that its steps take but for the first."""

    warm_up = 1
    model: Any
    codec: Any
    optimizer: Any
    items: list[Any]

    def __init__(self) -> None:
        self.cpu = self.wall = 0.0
        self.seen = self.steps = 0

    @abstractmethod
    def loss(self, batch: dict[str, Tensor]) -> Tensor:
        """What the step goes down."""

    def size(self, places: np.ndarray) -> int:
        """What is counted of a batch."""
        return len(places)

    def step(self, places: np.ndarray) -> None:
        cpu, wall = time.process_time(), time.perf_counter()
        self.loss(self.codec.collate([self.items[i] for i in places])).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        if self.steps > self.warm_up:
            self.cpu += time.process_time() - cpu
            self.wall += time.perf_counter() - wall
            self.seen += self.size(places)
