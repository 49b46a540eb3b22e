"""What a decoder made of the prompts that it read last, so that a conversation that goes on is read from where it stopped."""

from __future__ import annotations

import threading
from bisect import bisect
from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor

Ids = tuple[int, ...]


class Readings:
    """Keys and values [layers, 2, heads, tokens, width] of prompts, up to so many megabytes; the latest stay.

    >>> import torch
    >>> readings = Readings(1)
    >>> readings.keep((5, 6, 7, 8), torch.zeros(1, 2, 1, 4, 2))
    >>> [0 if (found := readings.find(ids)) is None else found.shape[3] for ids in [(5, 6, 9), (5, 6, 7, 8, 1), (6, 7)]]
    [2, 4, 0]
    """

    def __init__(self, megabytes: int) -> None:
        self.room = megabytes << 20
        self.size = 0  # bytes
        self._kept: OrderedDict[Ids, Tensor] = OrderedDict()  # the one used last stands last
        self._sorted: list[Ids] = []  # those that begin most alike are neighbours
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def find(self, prompt: Ids) -> Tensor | None:
        """As much of a prompt's beginning as was read before."""
        with self._lock:
            place = bisect(self._sorted, prompt)
            near = self._sorted[max(place - 1, 0) : place + 1]
            nearest = max(near, key=lambda ids: alike(ids, prompt), default=())
            if not (count := alike(nearest, prompt)):
                return None
            self._kept.move_to_end(nearest)
            return self._kept[nearest][:, :, :, :count]

    def keep(self, prompt: Ids, states: Tensor) -> None:
        """Remember what was made of a prompt; what was kept of its beginning alone is not needed any more."""
        with self._lock:
            place = bisect(self._sorted, prompt)
            if any(alike(ids, prompt) == len(prompt) for ids in self._sorted[max(place - 1, 0) : place + 1]):
                return  # it is the beginning of one that is here
            while place and alike(before := self._sorted[place - 1], prompt) == len(before):
                self._forget(before)
                place -= 1
            self._sorted.insert(place, prompt)
            self._kept[prompt] = states
            self.size += states.nbytes
            while self.size > self.room:
                self._forget(next(iter(self._kept)))

    def _forget(self, prompt: Ids) -> None:
        self.size -= self._kept.pop(prompt).nbytes
        self._sorted.remove(prompt)


def alike(one: Sequence[int], other: Sequence[int]) -> int:
    """With how many tokens both begin."""
    count = min(len(one), len(other))
    return next((i for i in range(count) if one[i] != other[i]), count)
