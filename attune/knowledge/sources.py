"""Concept sources: files of assertions (relation, head, tail, weight), read as streams of blocks.

A source says how its weights scale to a confidence in 0..1 and where its file is found when no path is given. Adding
one is a function that yields :class:`Rows` and one registration:

>>> sorted(SOURCES)
['conceptnet4', 'conceptnet5', 'senticnet']
>>> round(float(SOURCES["conceptnet5"].scaled(3.464)), 3)  # seed 000: (loneliness, CausesDesire, socialize, 3.464)
0.274
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attune.errors import DataError, MissingError
from attune.knowledge.blocks import Block, text_blocks
from attune.knowledge.texts import LONGEST, Texts
from attune.registry import Registry

Assertion = tuple[bytes, bytes, bytes, float]  # relation, head, tail, weight; UTF-8, spaces between words


@dataclass(frozen=True)
class Rows:
    """Assertions column by column.

    >>> rows = Rows.of([(b"IsA", b"panic", b"fear", 2.0)], lines=1, consumed=20)
    >>> list(rows)
    [(b'IsA', b'panic', b'fear', 2.0)]
    """

    names: Sequence[bytes]  # the relations that occur
    relations: NDArray[np.int64]  # per row, the place in `names`
    heads: Texts
    tails: Texts
    weights: NDArray[np.float64]
    lines: int  # lines of the file that these rows stand for, kept or not
    consumed: int  # bytes of the file read so far

    @classmethod
    def of(cls, assertions: Sequence[Assertion], lines: int, consumed: int) -> Rows:
        """From assertions one by one, for sources of modest size."""
        relations, heads, tails, weights = zip(*assertions) if assertions else ((), (), (), ())
        names = list(dict.fromkeys(relations))
        place = {name: i for i, name in enumerate(names)}
        numbers = np.fromiter(map(place.__getitem__, relations), dtype=np.int64, count=len(relations))
        return cls(
            names, numbers, Texts.of(heads), Texts.of(tails), np.array(weights, dtype=np.float64), lines, consumed
        )

    def __len__(self) -> int:
        return len(self.weights)

    def __iter__(self) -> Iterator[Assertion]:
        relations = (self.names[i] for i in self.relations.tolist())
        return iter(zip(relations, self.heads, self.tails, self.weights.tolist()))


def scale(weights: ArrayLike, low: float, high: float) -> NDArray[np.float64]:
    """Min-max: `low` becomes 0, `high` becomes 1, what lies outside is clipped.

    Rounded to 6 places, so that a weight of 1.9 scales to 0.1 and not to 0.09999999: thresholds stay exact.
    """
    share: NDArray[np.float64] = (np.asarray(weights, dtype=np.float64) - low) / (high - low)
    return share.clip(0.0, 1.0).round(6)


@dataclass(frozen=True)
class Source:
    """Where assertions come from and what their weights mean."""

    name: str
    licence: str
    low: float  # the weight that scales to confidence 0
    high: float  # the weight that scales to confidence 1
    read: Callable[[Path], Iterator[Rows]]
    find: Callable[[], Path]  # the file when the user names none

    def scaled(self, weights: ArrayLike) -> NDArray[np.float64]:
        """The confidence of each weight, in 0..1."""
        return scale(weights, self.low, self.high)


SOURCES: Registry[Source] = Registry("concept source")


def add(source: Source) -> Source:
    """Register a source under its name."""
    return SOURCES.register(source.name)(source)


# ---------------------------------------------------------------------------------------------- ConceptNet 5

_FIELDS5 = "5 tab-separated fields (uri, relation, start, end, JSON with a weight)"
_LINE = np.frombuffer(b"\t\t\t\t\n", dtype=np.uint8)
_TAIL = 32  # bytes at the end of a line in which the weight is expected
_LAST_WEIGHT = re.compile(rb'"weight": *([-+.\deE]+)\}\s*$')
_WEIGHT = re.compile(rb'"weight": *([-+.\deE]+)')


def read_conceptnet5(path: Path) -> Iterator[Rows]:
    """The English–English assertions of ConceptNet 5's own file (34 million lines in all languages).

    A block is worked on as one array of bytes: tabs and newlines give the fields, the bytes after the tabs the language, and
    only English lines are looked at further. Parts of speech and senses (/c/en/act/v/wn/communication) are left out.
    """
    for block in text_blocks(path):
        data = np.frombuffer(block.data, dtype=np.uint8)
        marks = np.flatnonzero(data <= ord("\n"))
        if len(marks) % 5 or not np.array_equal(
            data[marks].reshape(-1, 5), np.broadcast_to(_LINE, (len(marks) // 5, 5))
        ):
            raise _malformed(path, block)
        lines = marks.reshape(-1, 5)
        lines = lines[_stands(data, lines[:, 1], b"\t/c/en/") & _stands(data, lines[:, 2], b"\t/c/en/")]
        relation, head, tail, extra, end = (np.ascontiguousarray(column) for column in lines.T)
        heads = _concepts(data, head + 7, tail)
        tails = _concepts(data, tail + 7, extra)
        names = Texts.cut(data, relation + 4, head - relation - 4)  # after "\t/r/"
        weights = _weights(path, block, extra + 1, end)
        for texts, what in ((heads, "a start"), (tails, "an end"), (names, "a relation")):
            if len(texts) and not 0 < texts.lengths.min() <= texts.lengths.max() <= LONGEST:
                worst = int(np.argmax((texts.lengths < 1) | (texts.lengths > LONGEST)))
                raise _at(path, block, int(end[worst]), f"{what} of 1 to {LONGEST} bytes")
        try:
            for texts in (heads, tails):
                texts.data.tobytes().decode()
        except UnicodeDecodeError as error:
            worst = int(np.searchsorted(np.cumsum(texts.lengths), error.start, side="right"))
            raise _at(path, block, int(end[worst]), "UTF-8") from None
        _, first, relations = np.unique(names.hashes()[0], return_index=True, return_inverse=True)
        yield Rows(list(names.taken(first)), relations, heads, tails, weights, block.lines, block.consumed)


def _stands(data: NDArray[np.uint8], places: NDArray[np.int64], text: bytes) -> NDArray[np.bool_]:
    """At which of these places the text stands."""
    stands = np.ones(len(places), dtype=bool)
    for i, byte in enumerate(text):
        stands &= data[np.minimum(places + i, len(data) - 1)] == byte
    return stands


def _concepts(data: NDArray[np.uint8], starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Texts:
    """The texts from each start to the next slash or the end of the field, with spaces for underscores."""
    fields = Texts.cut(data, starts, stops - starts)
    slashes = np.flatnonzero(fields.data == ord("/"))
    field = np.searchsorted(np.cumsum(fields.lengths), slashes, side="right")
    first = np.flatnonzero(np.diff(field, prepend=-1))  # of the slashes in one field
    lengths = fields.lengths.copy()
    lengths[field[first]] = slashes[first] - fields.starts[field[first]]
    texts = Texts.cut(fields.data, fields.starts, lengths)
    texts.data[texts.data == ord("_")] = ord(" ")
    return texts


def _weights(path: Path, block: Block, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> NDArray[np.float64]:
    """The weight in each JSON. Nearly always it comes last, and lines with the same last bytes share the reading of it."""
    if not len(starts):
        return np.empty(0, dtype=np.float64)
    lasts = np.maximum(starts, stops - _TAIL)
    ends = Texts.cut(np.frombuffer(block.data, dtype=np.uint8), lasts, stops - lasts)
    _, first, group = np.unique(ends.hashes()[0], return_index=True, return_inverse=True)
    found = [_LAST_WEIGHT.search(text) for text in ends.taken(first)]
    try:
        weights = np.array([float(match[1]) if match else np.nan for match in found], dtype=np.float64)[group]
    except ValueError:
        weights = np.full(len(starts), np.nan)
    for row in np.flatnonzero(np.isnan(weights)).tolist():  # not last, or not a number
        match = _WEIGHT.search(block.data, int(starts[row]), int(stops[row]))
        try:
            weights[row] = float(match[1]) if match else np.nan
        except ValueError:
            match = None
        if match is None:
            raise _at(path, block, int(stops[row]), 'a number as "weight" in the JSON')
    return weights


def _at(path: Path, block: Block, place: int, expected: str) -> DataError:
    """The error about the line in which a place of the block lies."""
    before = block.data.count(b"\n", 0, place)
    line = block.data[block.data.rfind(b"\n", 0, place) + 1 : place]
    return DataError(f"{path}:{block.line + before}: expected {expected}, found {line[:120]!r}; is the file damaged?")


def _malformed(path: Path, block: Block) -> DataError:
    """The error about the first line that has not five fields, or has control characters."""
    for line in re.finditer(rb"[^\n]*\n", block.data):
        if line[0].count(b"\t") != 4 or re.search(rb"[\x00-\x08]", line[0]):
            return _at(path, block, line.end() - 1, _FIELDS5)
    raise AssertionError("some line is malformed")


def _find_conceptnet5() -> Path:
    raise MissingError(
        "ConceptNet 5 does not come with Attune: download conceptnet-assertions-5.7.0.csv.gz (see "
        "github.com/commonsense/conceptnet5/wiki/Downloads) and give its path with --file, or use conceptnet4, "
        "the default, which needs no file"
    )


# ---------------------------------------------------------------------------------------------- ConceptNet 4

_FIELDS4 = "6 tab-separated fields (relation, head, tail, score, freq, weight)"


def read_conceptnet4(path: Path) -> Iterator[Rows]:
    """ConceptNet 4's table. Negated assertions (freq < 0) are left out."""
    for block in text_blocks(path):
        rows: list[Assertion] = []
        for number, line in enumerate(block.data.split(b"\n")[:-1], block.line):
            if number == 1 and line.startswith(b"relation\t"):
                continue
            try:
                relation, head, tail, _, frequency, weight = line.decode().split("\t")
                if float(frequency) >= 0 and head and tail:
                    rows.append((relation.encode(), head.lower().encode(), tail.lower().encode(), float(weight)))
            except ValueError:
                raise DataError(f"{path}:{number}: expected {_FIELDS4}, found {line[:120]!r}") from None
        yield Rows.of(rows, block.lines, block.consumed)


def _find_conceptnet4() -> Path:
    path = Path(str(resources.files("attune.knowledge").joinpath("data", "conceptnet4", "conceptnet4_en.tsv.xz")))
    if not path.is_file():
        raise MissingError(f"ConceptNet 4 should have come with Attune, but there is no {path}; install Attune again")
    return path


# ------------------------------------------------------------------------------------------------- SenticNet

_QUOTED = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_SENTICNET_CONFIDENCE = 0.5  # SenticNet gives related concepts no weight of their own


def read_senticnet(path: Path) -> Iterator[Rows]:
    """SenticNet's table: every concept with its five related concepts, as RelatedTo with confidence 0.5."""
    at: tuple[int, int] | None = None
    for block in text_blocks(path):
        rows: list[Assertion] = []
        try:
            records = list(csv.reader(io.StringIO(block.data.decode(), newline="")))
        except (UnicodeDecodeError, csv.Error) as error:
            raise DataError(
                f"{path}: lines {block.line} to {block.line + block.lines - 1}: not a UTF-8 CSV ({error})"
            ) from None
        for number, record in enumerate(records, block.line):
            if at is None:
                if not {"CONCEPT", "SEMANTICS"} <= set(record):
                    raise DataError(f"{path}:1: expected a header with CONCEPT and SEMANTICS, found {record[:5]}")
                at = record.index("CONCEPT"), record.index("SEMANTICS")
                continue
            if len(record) <= max(at):
                raise DataError(f"{path}:{number}: expected at least {max(at) + 1} fields, found {len(record)}")
            head, related = (record[i].replace("_", " ").strip().lower() for i in at)
            for one, other in _QUOTED.findall(related):
                tail = (one or other).strip()
                if head and tail and tail != head:  # short lists are filled up with the concept itself
                    rows.append((b"RelatedTo", head.encode(), tail.encode(), _SENTICNET_CONFIDENCE))
        yield Rows.of(rows, block.lines, block.consumed)


def _find_senticnet() -> Path:
    from attune.parts import locate

    return locate("senticnet")


add(Source("conceptnet4", "CC BY-SA", 0.0, 2.0, read_conceptnet4, _find_conceptnet4))
add(Source("conceptnet5", "CC BY-SA 4.0", 1.0, 10.0, read_conceptnet5, _find_conceptnet5))
add(Source("senticnet", "CC BY-NC-SA 4.0", 0.0, 1.0, read_senticnet, _find_senticnet))
