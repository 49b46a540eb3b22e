"""Make a concept index from a source, in bounded memory whatever the size of the file.

Concepts are known by two 64-bit hashes while they are numbered (two texts never share both), and the final numbers follow
the first, by which the index finds them.

1. *Spill.* Rows are read until a chunk is full; its different concepts are written in the order of their hash, its rows
   beside them.
2. *Merge.* Hash range by hash range, the chunks' concepts get their final numbers.
3. *Sort.* Rows, now with final numbers, are dealt to partitions by concept; each partition is sorted, repeated
   assertions are merged (the largest weight stays), and the arrays are appended to.

Everything happens in a hidden folder beside the target that takes its place at the end, or vanishes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from attune.errors import DataError, MissingError
from attune.files import atomic_dir, cache_dir, sha256
from attune.knowledge.index import ARRAYS, FORMAT, POOL, ConceptIndex, meta_checksum
from attune.knowledge.sources import SOURCES, Rows, Source
from attune.knowledge.texts import Texts, different

CHUNK_ROWS = 500_000  # rows numbered at once: about 300 MB
MERGE_TEXTS = 1_000_000  # concepts merged at once
PARTITION_EDGES = 4_000_000  # edges sorted at once: about 250 MB
_MAX_RELATIONS = 256
_ROW = np.dtype([("head", "<u4"), ("tail", "<u4"), ("weight", "<f4"), ("relation", "u1")])
_TEXT = np.dtype([("key", "<u8"), ("check", "<u8"), ("length", "<u4")])
_EDGE = np.dtype([("key", "<u8"), ("weight", "<f4")])
# key of an edge in its partition: concept (23 bits) | backward (1) | relation (8) | neighbour (32)
_CONCEPT_BITS, _BACKWARD, _RELATION = 23, 40, 32

Array = NDArray[Any]


class Progress(NamedTuple):
    """How far a build is."""

    stage: str
    share: float  # of the stage, 0..1
    lines: int  # read so far


Report = Callable[[Progress], None]


def build(source: str, out: str | Path, file: str | Path | None = None, report: Report | None = None) -> ConceptIndex:
    """Index a source into the folder `out`, which is replaced only when the new index is complete."""
    chosen = SOURCES[source]
    path = Path(file) if file is not None else chosen.find()
    with atomic_dir(out) as new:
        _fill(chosen, path, new, report or (lambda progress: None))
    return ConceptIndex(out)


def _fill(source: Source, path: Path, new: Path, report: Report) -> None:
    work = new / "work"
    work.mkdir()
    chunks = _Chunks(work)
    lines = 0
    for rows in source.read(path):
        chunks.add(rows)
        lines += rows.lines
        report(Progress("reading", min(1.0, rows.consumed / path.stat().st_size), lines))
    chunks.flush()
    if not chunks.count:
        raise DataError(f"{path}: no assertions for source '{source.name}' in {lines:,} lines; is it the right file?")
    concepts = _merge(chunks, new, lambda share: report(Progress("merging", share, lines)))
    assertions = _sort(chunks, concepts, new, lambda share: report(Progress("sorting", share, lines)))
    shutil.rmtree(work)
    meta: dict[str, Any] = {
        "format": FORMAT,
        "source": source.name,
        "file": path.name,
        "licence": source.licence,
        "scale": [source.low, source.high],
        "lines": lines,
        "concepts": concepts,
        "assertions": assertions,
        "relations": [name.decode() for name in chunks.relations],
        "files": {
            name: {"bytes": (new / f"{name}.bin").stat().st_size, "sha256": sha256(new / f"{name}.bin")}
            for name in (POOL, *ARRAYS)
        },
    }
    meta["checksum"] = meta_checksum(meta)
    (new / "meta.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


# --------------------------------------------------------------------------------------------------- spill


class _Numbers(dict[bytes, int]):
    """Text → number, in order of first appearance."""

    def __missing__(self, text: bytes) -> int:
        number = self[text] = len(self)
        return number


class _Chunks:
    """Rows and their concepts on disk: chunk i is `i.texts` (hashes and lengths), `i.data` (the bytes) and `i.rows`."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.count = 0
        self.texts = 0  # concepts of all chunks together
        self.relations = _Numbers()
        self._waiting: list[tuple[Texts, Texts, Array]] = []
        self._held = 0

    def add(self, rows: Rows) -> None:
        if not len(rows):
            return
        numbers = np.array([self.relations[name] for name in rows.names])
        if len(self.relations) > _MAX_RELATIONS:
            raise DataError(f"more than {_MAX_RELATIONS} relations, the last being {rows.names[-1]!r}")
        table = np.empty(len(rows), dtype=_ROW)
        table["weight"], table["relation"] = rows.weights, numbers[rows.relations]
        self._waiting.append((rows.heads, rows.tails, table))
        self._held += len(rows)
        if self._held >= CHUNK_ROWS:
            self.flush()

    def flush(self) -> None:
        if not self._held:
            return
        heads, tails, tables = zip(*self._waiting)
        self._waiting.clear()
        rows = np.concatenate(tables)
        hashed = [texts.hashes() for texts in (*heads, *tails)]
        key, check = (np.concatenate(part) for part in zip(*hashed))
        del hashed
        chosen, places = different(key, check)
        rows["head"], rows["tail"] = np.split(places, 2)
        rows.tofile(self.work / f"{self.count}.rows")
        texts = Texts.joined([*heads, *tails]).taken(chosen)
        table = np.empty(len(chosen), dtype=_TEXT)
        table["key"], table["check"], table["length"] = key[chosen], check[chosen], texts.lengths
        table.tofile(self.work / f"{self.count}.texts")
        texts.data.tofile(self.work / f"{self.count}.data")
        self.count += 1
        self.texts += len(texts)
        self._held = 0


# --------------------------------------------------------------------------------------------------- merge


def _merge(chunks: _Chunks, new: Path, report: Callable[[float], None]) -> int:
    """Write the pool, its offsets, the buckets and every chunk's table old → new; the number of concepts."""
    ranges = 1 << (chunks.texts // MERGE_TEXTS).bit_length()
    at_once = max(256, MERGE_TEXTS // chunks.count // 8)
    count = size = 0
    with ExitStack() as stack:
        opened = [_open(stack, chunks.work, i, ("texts", "data")) for i in range(chunks.count)]
        tables = [stack.enter_context(open(chunks.work / f"{i}.new", "wb")) for i in range(chunks.count)]
        pool, offsets, hashes = (
            stack.enter_context(open(path, "wb"))
            for path in (new / f"{POOL}.bin", new / "concept_offsets.bin", chunks.work / "hashes")
        )
        waiting = [np.empty(0, dtype=_TEXT)] * chunks.count
        np.zeros(1, dtype="<u8").tofile(offsets)
        for i in range(1, ranges + 1):
            parts = []
            for j, files in enumerate(opened):
                part, waiting[j] = _up_to(i * ((1 << 64) // ranges), files["texts"], waiting[j], at_once)
                parts.append(part)
            merged = np.concatenate(parts)
            if not len(merged):
                continue
            data = np.concatenate(
                [np.fromfile(files["data"], np.uint8, int(part["length"].sum())) for files, part in zip(opened, parts)]
            )
            chosen, places = different(np.ascontiguousarray(merged["key"]), np.ascontiguousarray(merged["check"]))
            cuts = np.cumsum([len(part) for part in parts])[:-1]
            for table, numbers in zip(tables, np.split(count + places.astype(np.int64), cuts)):
                numbers.astype("<u4").tofile(table)
            texts = Texts(data, merged["length"].astype(np.int64)).taken(chosen)
            ends = size + np.cumsum(texts.lengths)
            ends.astype("<u8").tofile(offsets)
            texts.data.tofile(pool)
            merged["key"][chosen].tofile(hashes)
            count += len(ends)
            size = int(ends[-1])
            report(i / ranges)
    _write_buckets(np.memmap(chunks.work / "hashes", dtype="<u8", mode="r"), new)
    return count


def _open(stack: ExitStack, work: Path, chunk: int, kinds: Sequence[str]) -> dict[str, IO[bytes]]:
    return {kind: stack.enter_context(open(work / f"{chunk}.{kind}", "rb")) for kind in kinds}


def _up_to(key: int, file: IO[bytes], waiting: Array, at_once: int) -> tuple[Array, Array]:
    """The texts below a key, from what was read already and the file; and what was read beyond them."""
    parts = [waiting]
    while not len(parts[-1]) or int(parts[-1]["key"][-1]) < key:
        parts.append(np.fromfile(file, dtype=_TEXT, count=at_once))
        if not len(parts[-1]):
            break
    texts = np.concatenate(parts)
    cut = len(texts) if key >= 1 << 64 else int(np.searchsorted(texts["key"], np.uint64(key)))
    return texts[:cut], texts[cut:]


def _write_buckets(hashes: Array, new: Path) -> None:
    """Where the concepts of each bucket (the upper bits of the hash) start; one to two buckets for a concept."""
    bits = len(hashes).bit_length()
    with open(new / "buckets.bin", "wb") as file:
        for first in range(0, 1 << bits, 1 << 16):
            buckets = np.arange(first, min(first + (1 << 16), 1 << bits), dtype=np.uint64)
            np.searchsorted(hashes, buckets << np.uint64(64 - bits)).astype("<u4").tofile(file)
        np.array([len(hashes)], dtype="<u4").tofile(file)


# ---------------------------------------------------------------------------------------------------- sort


def _sort(chunks: _Chunks, concepts: int, new: Path, report: Callable[[float], None]) -> int:
    """Write the edges; the number of different assertions."""
    starts = _partition(chunks, concepts)
    dealt = [chunks.work / f"{i}.edges" for i in range(len(starts) - 1)]
    with ExitStack() as stack:
        files = [stack.enter_context(open(path, "wb")) for path in dealt]
        for rows in _renumbered(chunks):
            different = rows[rows["head"] != rows["tail"]]  # a concept's edge to itself is kept once, as a forward one
            for backward, concept, neighbour, of in ((0, "head", "tail", rows), (1, "tail", "head", different)):
                part = np.searchsorted(starts, of[concept], side="right") - 1
                edges = np.empty(len(of), dtype=_EDGE)
                key = (of[concept] - starts[part]).astype(np.uint64) << np.uint64(_BACKWARD + 1)
                key |= of["relation"].astype(np.uint64) << np.uint64(_RELATION)
                edges["key"] = key | np.uint64(backward << _BACKWARD) | of[neighbour]
                edges["weight"] = of["weight"]
                order = np.argsort(part.astype(np.uint16), kind="stable")
                cuts = np.cumsum(np.bincount(part, minlength=len(files)))[:-1]
                for file, share in zip(files, np.split(edges[order], cuts)):
                    share.tofile(file)
    done = assertions = 0
    with ExitStack() as stack:
        names = [name for name in ARRAYS if name.startswith("edge_")]
        out = {name: stack.enter_context(open(new / f"{name}.bin", "wb")) for name in names}
        np.zeros(1, dtype="<u8").tofile(out["edge_offsets"])
        for i, path in enumerate(dealt):
            edges_here, forward = _sorted_edges(path, int(starts[i + 1] - starts[i]), done, out)
            done += edges_here
            assertions += forward
            report((i + 1) / len(dealt))
    return assertions


def _sorted_edges(path: Path, concepts: int, done: int, out: Mapping[str, IO[bytes]]) -> tuple[int, int]:
    """Sort one partition, merge repeated assertions and append to the arrays; the number of edges, and of forward ones."""
    edges = np.fromfile(path, dtype=_EDGE)
    path.unlink()
    key = np.ascontiguousarray(edges["key"])
    order = np.argsort(key)
    key, weight = key[order], edges["weight"][order]
    del edges, order
    first = np.flatnonzero(np.concatenate(([True], key[1:] != key[:-1])))
    key, weight = key[first], np.maximum.reduceat(weight, first)
    concept = (key >> np.uint64(_BACKWARD + 1)).astype(np.int64)
    backward = (key >> np.uint64(_BACKWARD)) & np.uint64(1) == 1
    ends = done + np.cumsum(np.bincount(concept, minlength=concepts))
    ends.astype("<u8").tofile(out["edge_offsets"])
    (ends - np.bincount(concept[backward], minlength=concepts)).astype("<u8").tofile(out["edge_middles"])
    (key & np.uint64(0xFFFFFFFF)).astype("<u4").tofile(out["edge_concepts"])
    ((key >> np.uint64(_RELATION)) & np.uint64(0xFF)).astype("u1").tofile(out["edge_relations"])
    weight.astype("<f4").tofile(out["edge_weights"])
    return len(key), int(len(key) - backward.sum())


def _renumbered(chunks: _Chunks) -> Iterator[Array]:
    """The rows of every chunk with final numbers."""
    for i in range(chunks.count):
        table = np.fromfile(chunks.work / f"{i}.new", dtype="<u4")
        rows = np.fromfile(chunks.work / f"{i}.rows", dtype=_ROW)
        rows["head"], rows["tail"] = table[rows["head"]], table[rows["tail"]]
        yield rows


def _partition(chunks: _Chunks, concepts: int) -> NDArray[np.int64]:
    """Where to cut the numbers of concepts, so that a partition has few enough edges and concepts."""
    shift = max(0, concepts.bit_length() - 16)
    bins = np.zeros(((concepts - 1) >> shift) + 1, dtype=np.int64)
    for rows in _renumbered(chunks):
        for end in ("head", "tail"):
            bins += np.bincount(rows[end] >> shift, minlength=len(bins))
    starts, edges = [0], 0
    for i, more in enumerate(bins.tolist()):
        full = edges + more > PARTITION_EDGES or ((i + 1) << shift) - starts[-1] > 1 << _CONCEPT_BITS
        if edges and full:
            starts.append(i << shift)
            edges = 0
        edges += more
    return np.array([*starts, concepts], dtype=np.int64)


# --------------------------------------------------------------------------------------------- the one to use


def open_index(folder: str | Path | None = None) -> ConceptIndex:
    """The index in a folder, or the default one: ConceptNet 4, which comes with Attune."""
    return default_index() if folder is None else ConceptIndex(folder)


def default_index(report: Report | None = None) -> ConceptIndex:
    """ConceptNet 4 from the user's cache, indexed there by whoever asks first; loaded once per process."""
    packed = SOURCES["conceptnet4"].find()
    return _default(cache_dir() / "knowledge" / f"conceptnet4-{sha256(packed)[:12]}-{FORMAT}", packed, report)


_opened: dict[Path, ConceptIndex] = {}


def _default(folder: Path, packed: Path, report: Report | None) -> ConceptIndex:
    if folder not in _opened:
        try:
            _opened[folder] = ConceptIndex(folder)
        except (MissingError, DataError):  # not there yet, or damaged
            folder.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{folder}.lock"):
                try:
                    _opened[folder] = ConceptIndex(folder)  # another process was quicker
                except (MissingError, DataError):
                    _opened[folder] = build("conceptnet4", folder, packed, report)
    return _opened[folder]
