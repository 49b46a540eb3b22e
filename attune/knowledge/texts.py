"""Many short texts as one array of bytes, and a hash of each: what lets millions of concepts be handled without a loop."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from operator import mul

import numpy as np
from numpy.typing import NDArray

LONGEST = 1 << 12  # bytes of one text

# A text's hash is the sum of its bytes, each times the odd 64-bit number of its place, modulo 2^64. The numbers are fixed:
# an index on disk is ordered by this hash. The second row makes the check for the rare pair with the same hash.
_NUMBERS = np.frombuffer(hashlib.shake_128(b"attune").digest(16 * LONGEST), dtype="<u8").reshape(
    2, LONGEST
) | np.uint64(1)
_AS_INTEGERS = tuple(_NUMBERS[0].tolist())


def text_hash(text: bytes) -> int:
    """The hash of one text; :meth:`Texts.hashes` gives the same.

    >>> text_hash(b"fear") == int(Texts.of([b"fear"]).hashes()[0][0])
    True
    """
    return sum(map(mul, text, _AS_INTEGERS)) & 0xFFFFFFFFFFFFFFFF


@dataclass(frozen=True)
class Texts:
    """Texts end to end; none is empty.

    >>> texts = Texts.of([b"fear", b"panic"])
    >>> list(texts.taken(np.array([1, 1])))
    [b'panic', b'panic']
    """

    data: NDArray[np.uint8]
    lengths: NDArray[np.int64]

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """Pack texts."""
        lengths = np.fromiter(map(len, texts), dtype=np.int64, count=len(texts))
        return cls(np.frombuffer(b"".join(texts), dtype=np.uint8), lengths)

    @classmethod
    def cut(cls, data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Texts:
        """The texts that stand at these places of an array of bytes."""
        shifts = starts - (np.cumsum(lengths) - lengths)
        return cls(data[np.repeat(shifts, lengths) + np.arange(lengths.sum())], lengths)

    @classmethod
    def joined(cls, parts: Sequence[Texts]) -> Texts:
        """The texts of all parts, one part after the other."""
        return cls(np.concatenate([part.data for part in parts]), np.concatenate([part.lengths for part in parts]))

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where each text starts."""
        return np.cumsum(self.lengths) - self.lengths

    def __len__(self) -> int:
        return len(self.lengths)

    def __iter__(self) -> Iterator[bytes]:
        data = self.data.tobytes()
        return (data[start : start + length] for start, length in zip(self.starts.tolist(), self.lengths.tolist()))

    def taken(self, chosen: NDArray[np.integer]) -> Texts:
        """Some of the texts, by their numbers."""
        return Texts.cut(self.data, self.starts[chosen], self.lengths[chosen])

    def hashes(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """Hash and check of every text; both together stand for the text."""
        if not len(self):
            return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.uint64)
        starts = self.starts
        places = np.arange(len(self.data)) - np.repeat(starts, self.lengths)
        first, second = (np.add.reduceat(numbers[places] * self.data, starts) for numbers in _NUMBERS)
        return first, second


def different(key: NDArray[np.uint64], check: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
    """Of texts known by their hashes: one of each, in the order of the hashes, and every text's place among these."""
    order = np.argsort(key)
    same = key[order][1:] == key[order][:-1]
    if np.any(same & (check[order][1:] != check[order][:-1])):  # two texts with one hash: hardly ever
        order = np.lexsort((check, key))
        same = (key[order][1:] == key[order][:-1]) & (check[order][1:] == check[order][:-1])
    new = np.concatenate(([True], ~same))
    place = np.empty(len(order), dtype=np.uint32)
    place[order] = np.cumsum(new) - 1
    return order[new], place
