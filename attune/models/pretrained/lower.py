"""What a decoder's frozen lower layers make of each training dialogue: computed in the first epoch, read in the later ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


class LowerStates:
    """States of dialogues in one memory-mapped file, in half precision.

    A state is always the rounded one, also where it has just been computed: whether it was there before, and in which run it
    was written, changes nothing.
    """

    def __init__(self, folder: Path, lengths: Sequence[int], width: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.ends = np.cumsum(lengths)
        self._states = _mapped(folder / "states.f16", np.float16, (int(self.ends[-1]), width))
        self._there = _mapped(folder / "there.u8", np.uint8, (len(lengths),))

    def states(self, rows: Tensor, lengths: Tensor, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """[B, S, d] of the dialogues `rows`; `compute(places)` gives those of some places of the batch."""
        new = torch.from_numpy(self._there[rows.numpy()] == 0).nonzero().squeeze(1)
        if len(new):
            for place, found in zip(new.tolist(), compute(new), strict=True):
                self._of(int(rows[place]))[:] = found[: lengths[place]].numpy().astype(np.float16)
                self._there[int(rows[place])] = 1
        out = torch.zeros(len(rows), int(lengths.max()), self._states.shape[1])
        for place, (row, length) in enumerate(zip(rows.tolist(), lengths.tolist(), strict=True)):
            out[place, :length] = torch.from_numpy(self._of(row).astype(np.float32))
        return out

    def _of(self, row: int) -> np.ndarray:
        return self._states[self.ends[row - 1] if row else 0 : self.ends[row]]


def _mapped(file: Path, kind: type[np.generic], shape: tuple[int, ...]) -> np.ndarray:
    """The file as an array; anew, full of zeros, unless it is there in this very size."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    same = file.is_file() and file.stat().st_size == size
    return np.memmap(file, kind, "r+" if same else "w+", shape=shape)
