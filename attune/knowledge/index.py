"""The concept index: who neighbours whom, on disk, memory-mapped and never changed.

A folder with `meta.json` (format, source, counts, licence, size and sha256 of every file) and raw little-endian arrays.
Concepts are numbered in the order of their hash, so that a table of buckets leads from a word to its number. All processes share one copy through the page cache, and opening reads nothing but `meta.json`.

An assertion (head, relation, tail) is stored twice: under its head, where it reads forward, and under its tail. Both papers
look both ways: seed 000's Figure 2 prints "fear <is a> panic" and "blood <part of> blood cell", which ConceptNet
states the other way round, and KEMP's code stores both directions. ``direction="out"`` or ``"in"`` asks for one.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import mmap
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attune.errors import DataError, MissingError
from attune.files import sha256
from attune.knowledge.sources import scale
from attune.knowledge.texts import text_hash

FORMAT = 1
Direction = Literal["both", "out", "in"]
ARRAYS = {
    "concept_offsets": "<u8",  # concept i is pool[offsets[i]:offsets[i + 1]]
    "buckets": "<u4",  # concepts whose hash has the upper bits b: buckets[b] to buckets[b + 1]
    "edge_offsets": "<u8",  # edges of concept i: [offsets[i]:offsets[i + 1]], forward ones before edge_middles[i]
    "edge_middles": "<u8",
    "edge_concepts": "<u4",
    "edge_relations": "u1",
    "edge_weights": "<f4",
}
POOL = "concepts"
_CACHED = 1 << 18  # words whose numbers a process remembers


class Neighbour(NamedTuple):
    """One edge as seen from a word."""

    relation: str
    concept: str
    weight: float
    scaled: float  # confidence, 0..1
    forward: bool  # the word is the head of the assertion


class Neighbours(Sequence[Neighbour]):
    """The neighbours of one word: a view of the index. As a sequence it gives :class:`Neighbour`; the arrays cost nothing."""

    __slots__ = ("_index", "_middle", "_start", "_stop")

    def __init__(self, index: ConceptIndex, start: int, middle: int, stop: int) -> None:
        self._index, self._start, self._middle, self._stop = index, start, middle, stop

    def __len__(self) -> int:
        return self._stop - self._start

    @property
    def relations(self) -> NDArray[np.uint8]:
        """Numbers of the relations (:attr:`ConceptIndex.relations`)."""
        return self._index.edge_relations[self._start : self._stop]

    @property
    def concepts(self) -> NDArray[np.uint32]:
        """Numbers of the concepts (:meth:`ConceptIndex.concept`)."""
        return self._index.edge_concepts[self._start : self._stop]

    @property
    def weights(self) -> NDArray[np.float32]:
        """The weights as the source gives them."""
        return self._index.edge_weights[self._start : self._stop]

    @property
    def scaled(self) -> NDArray[np.float64]:
        """The weights as confidences in 0..1."""
        return self._index.scaled(self.weights)

    def __iter__(self) -> Iterator[Neighbour]:
        return iter(self._index.read_out(self._start, self._middle, self._stop))

    def __getitem__(self, at: Any) -> Any:
        return list(self)[at]

    def __repr__(self) -> str:
        return f"Neighbours({list(self)!r})"


class Batch:
    """The neighbours of many words: those of word i stand at ``[offsets[i]:offsets[i + 1]]`` of the other arrays.

    It holds where they are in the index; the arrays are gathered when they are first asked for.
    """

    def __init__(self, index: ConceptIndex, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> None:
        self._index, self._starts, self._lengths = index, starts, stops - starts

    def __len__(self) -> int:
        return len(self._starts)

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """Where the neighbours of each word start, and where the last ones end."""
        return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(self._lengths)))

    @cached_property
    def _at(self) -> NDArray[np.int64]:
        return np.repeat(self._starts - self.offsets[:-1], self._lengths) + np.arange(self.offsets[-1])

    @cached_property
    def relations(self) -> NDArray[np.uint8]:
        """Numbers of the relations (:attr:`ConceptIndex.relations`)."""
        return self._index.edge_relations[self._at]

    @cached_property
    def concepts(self) -> NDArray[np.uint32]:
        """Numbers of the concepts (:meth:`ConceptIndex.concept`)."""
        return self._index.edge_concepts[self._at]

    @cached_property
    def weights(self) -> NDArray[np.float32]:
        """The weights as the source gives them."""
        return self._index.edge_weights[self._at]


class ConceptIndex:
    """An open index. `find`, `neighbours` and `neighbours_many` are its whole use; see `attune knowledge lookup`."""

    edge_concepts: NDArray[np.uint32]
    edge_relations: NDArray[np.uint8]
    edge_weights: NDArray[np.float32]

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.meta = read_meta(self.folder)
        self.relations: tuple[str, ...] = tuple(self.meta["relations"])
        with open(self.folder / f"{POOL}.bin", "rb") as file:
            self._pool = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        arrays = {
            name: np.memmap(self.folder / f"{name}.bin", dtype=kind, mode="r").view(np.ndarray)
            for name, kind in ARRAYS.items()
        }
        self.edge_concepts = arrays["edge_concepts"]
        self.edge_relations = arrays["edge_relations"]
        self.edge_weights = arrays["edge_weights"]
        self._edge_offsets, self._edge_middles = arrays["edge_offsets"], arrays["edge_middles"]
        self._concept_offsets = arrays["concept_offsets"]
        # plain memory views: a single number is read several times faster than through an array
        self._text_at, self._edges_at, self._middle_at, self._bucket_at = (
            memoryview(arrays[name])  # type: ignore[arg-type]
            for name in ("concept_offsets", "edge_offsets", "edge_middles", "buckets")
        )
        self._shift = 64 - (len(self._bucket_at) - 1).bit_length() + 1
        self._known: dict[str, int] = {}  # word → number, −1 where there is none

    def __reduce__(self) -> tuple[type[ConceptIndex], tuple[Path]]:
        return ConceptIndex, (self.folder,)

    def __len__(self) -> int:
        """How many concepts there are."""
        return len(self._text_at) - 1

    def __contains__(self, word: object) -> bool:
        return isinstance(word, str) and self.find(word) is not None

    def __repr__(self) -> str:
        return f"ConceptIndex({self.meta['source']}, {len(self):,} concepts, {self.meta['assertions']:,} assertions)"

    @property
    def checksum(self) -> str:
        """Names the content: two indexes with the same checksum give the same answers."""
        return str(self.meta["checksum"])

    def concept(self, number: int) -> str:
        """The text of a concept."""
        return self._pool[self._text_at[number] : self._text_at[number + 1]].decode()

    def texts(self, numbers: NDArray[np.uint32]) -> list[str]:
        """The texts of many concepts."""
        starts = self._concept_offsets[numbers].tolist()
        stops = self._concept_offsets[numbers + np.uint32(1)].tolist()
        pool = self._pool
        return [pool[start:stop].decode() for start, stop in zip(starts, stops)]

    def scaled(self, weights: ArrayLike) -> NDArray[np.float64]:
        """Confidences in 0..1 by the rule of this index's source."""
        low, high = self.meta["scale"]
        return scale(weights, low, high)

    def find(self, word: str) -> int | None:
        """The number of a concept, or None. Words of a phrase are separated by single spaces."""
        number = self._known.get(word)
        if number is None:
            number = self._search(word)
        return None if number < 0 else number

    def _search(self, word: str) -> int:
        text = word.encode()
        bucket = text_hash(text) >> self._shift
        found = -1
        for number in range(self._bucket_at[bucket], self._bucket_at[bucket + 1]):
            if self._pool[self._text_at[number] : self._text_at[number + 1]] == text:
                found = number
                break
        if len(self._known) >= _CACHED:
            self._known.clear()
        self._known[word] = found
        return found

    def resolve(self, word: str) -> int | None:
        """The number of a word, or of its base form when the index has only that (ConceptNet 4 is lemmatised)."""
        number = self.find(word)
        if number is None:
            number = next((found for form in base_forms(word) if (found := self.find(form)) is not None), None)
        return number

    def neighbours(self, word: str, direction: Direction = "both") -> Neighbours:
        """All edges of a concept; none if the index does not know it."""
        number = self._known.get(word)
        if number is None:
            number = self._search(word)
        if number < 0:
            return Neighbours(self, 0, 0, 0)
        return self.neighbours_of(number, direction)

    def neighbours_of(self, number: int, direction: Direction = "both") -> Neighbours:
        """All edges of the concept with this number."""
        middle = self._middle_at[number]
        start = middle if direction == "in" else self._edges_at[number]
        stop = middle if direction == "out" else self._edges_at[number + 1]
        return Neighbours(self, start, middle, stop)

    def neighbours_many(self, words: Sequence[str], direction: Direction = "both") -> Batch:
        """All edges of many words at once; unknown words have none."""
        found = list(map(self._known.get, words))
        if None in found:
            found = [self._search(word) if number is None else number for word, number in zip(words, found)]
        numbers = np.array(found, dtype=np.int64)
        known = numbers >= 0
        numbers[~known] = 0
        starts = self._edge_middles[numbers] if direction == "in" else self._edge_offsets[numbers]
        stops = self._edge_middles[numbers] if direction == "out" else self._edge_offsets[numbers + 1]
        return Batch(self, starts.astype(np.int64) * known, stops.astype(np.int64) * known)

    def read_out(self, start: int, middle: int, stop: int) -> list[Neighbour]:
        """The edges at some places, as objects. Without arrays: most concepts have a handful of neighbours."""
        low, high = self.meta["scale"]
        pool, text_at, relations = self._pool, self._text_at, self.relations
        edges = zip(
            self.edge_relations[start:stop].tolist(),
            self.edge_concepts[start:stop].tolist(),
            self.edge_weights[start:stop].tolist(),
            range(start, stop),
        )
        return [
            Neighbour(
                relations[relation],
                pool[text_at[concept] : text_at[concept + 1]].decode(),
                weight,
                round(min(max((weight - low) / (high - low), 0.0), 1.0), 6),
                place < middle,
            )
            for relation, concept, weight, place in edges
        ]

    @cached_property
    def is_phrase(self) -> NDArray[np.bool_]:
        """Per concept, whether it has more than one word."""
        spaces = np.flatnonzero(np.frombuffer(self._pool, dtype=np.uint8) == ord(" "))
        phrases = np.zeros(len(self), dtype=bool)
        phrases[np.searchsorted(self._concept_offsets, spaces.astype(np.uint64), side="right") - 1] = True
        return phrases

    def nearest(self, word: str, count: int = 3) -> list[str]:
        """Known concepts that are spelt almost like a word: for "did you mean"."""
        text = word.encode() or b" "
        lengths = np.diff(self._concept_offsets).astype(np.int64)
        first = np.frombuffer(self._pool, dtype=np.uint8)[self._concept_offsets[:-1]]
        alike = np.flatnonzero((first == text[0]) & (np.abs(lengths - len(text)) <= 2)).astype(np.uint32)
        return difflib.get_close_matches(word, self.texts(alike[:20_000]), n=count, cutoff=0.7)


_ENDINGS = (("ies", "y"), ("ied", "y"), ("s", ""), ("es", ""), ("ed", "e"), ("ed", ""), ("ing", "e"), ("ing", ""))


def base_forms(word: str) -> Iterator[str]:
    """What a regularly inflected word may come from, likeliest first; whoever asks checks which one exists.

    >>> list(base_forms("worries")), list(base_forms("stopped"))
    (['worry', 'worrie', 'worri'], ['stoppe', 'stopp', 'stop'])
    """
    for ending, instead in _ENDINGS:
        base = word.removesuffix(ending)
        if base == word or len(base) < 2 or (ending == "s" and base.endswith("s")):
            continue
        yield base + instead
        if ending in ("ed", "ing") and not instead and len(base) > 3 and base[-1] == base[-2]:
            yield base[:-1]


# ------------------------------------------------------------------------------------------- meta.json

_HOW = (
    "make it with: attune knowledge build conceptnet4 --out {folder}; without --index the ConceptNet 4 in Attune serves"
)


def meta_checksum(meta: dict[str, Any]) -> str:
    """The checksum of a meta.json, over everything that says what the index holds."""
    content = {key: value for key, value in meta.items() if key not in ("checksum", "file")}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def read_meta(folder: Path) -> dict[str, Any]:
    """meta.json of an index, after the cheap checks: its own checksum, and the size of every file."""
    path = folder / "meta.json"
    how = _HOW.format(folder=folder)
    if not path.is_file():
        raise MissingError(f"no concept index in {folder.absolute()}: looked for {path.name}; {how}")
    try:
        meta = json.loads(path.read_bytes())
        version, files = meta["format"], meta["files"]
    except (ValueError, KeyError, TypeError):
        raise DataError(f"{path}: damaged, not the JSON of a concept index; {how}") from None
    if version != FORMAT:
        raise DataError(f"{path}: format {version}, this version of Attune reads {FORMAT}; {how}")
    if meta.get("checksum") != meta_checksum(meta):
        raise DataError(f"{path}: damaged, its checksum does not fit its content; {how}")
    for name in (POOL, *ARRAYS):
        file = folder / f"{name}.bin"
        size = file.stat().st_size if file.is_file() else None
        if size != files[name]["bytes"]:
            found = "is missing" if size is None else f"has {size:,} bytes"
            raise DataError(f"{file}: {found}, expected {files[name]['bytes']:,} bytes; {how}")
    return dict(meta)


def verify(folder: str | Path) -> None:
    """Every byte of an index against its checksums; the first file that differs is a DataError."""
    folder = Path(folder)
    meta = read_meta(folder)
    for name in (POOL, *ARRAYS):
        file = folder / f"{name}.bin"
        if sha256(file) != meta["files"][name]["sha256"]:
            raise DataError(f"{file}: damaged, its sha256 is not the one in meta.json; {_HOW.format(folder=folder)}")
