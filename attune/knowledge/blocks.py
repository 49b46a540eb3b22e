"""Big text files, plain or compressed, as blocks of whole lines; the next block is unpacked while one is worked on."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from attune.errors import DataError, MissingError

BLOCK = 2 << 20  # bytes of text: what is derived from a block should stay in the processor's cache
_PACKED = 1 << 20  # compressed bytes read at a time
_GZIP, _XZ = b"\x1f\x8b", b"\xfd7zXZ\x00"


class Block(NamedTuple):
    """Whole lines, each with its newline."""

    data: bytes
    line: int  # the number of the first of them, from 1
    lines: int
    consumed: int  # bytes of the file read so far (compressed ones if it is compressed)


def text_blocks(path: Path, size: int = BLOCK) -> Iterator[Block]:
    """The lines of a plain, gzip or xz file, in blocks of about `size` bytes.

    A file that ends too early, is damaged or has no lines is a DataError that says after which line.
    """
    if not path.is_file():
        raise MissingError(f"there is no file {path.absolute()}")
    line, rest = 1, b""
    with ThreadPoolExecutor(1) as ahead, open(path, "rb") as file:
        pieces = _unpacked(file, size)
        waiting = ahead.submit(next, pieces, None)
        while True:
            try:
                piece = waiting.result()
            except (zlib.error, lzma.LZMAError, EOFError) as error:
                raise DataError(f"{path}: damaged or cut short after line {line - 1} ({error}); get it again") from None
            if piece is None:
                break
            waiting = ahead.submit(next, pieces, None)
            data, consumed = piece
            cut = data.rfind(b"\n") + 1
            if not cut:
                rest += data
                if len(rest) > 16 * size:
                    raise DataError(f"{path}:{line}: a line of more than {len(rest) >> 20} MB; this is not a text file")
                continue
            whole, rest = rest + data[:cut], data[cut:]
            lines = int(np.count_nonzero(np.frombuffer(whole, dtype=np.uint8) == ord("\n")))
            yield Block(whole, line, lines, consumed)
            line += lines
    if rest:
        yield Block(rest + b"\n", line, 1, path.stat().st_size)


def _unpacked(file: IO[bytes], size: int) -> Iterator[tuple[bytes, int]]:
    """Pieces of `size` bytes at most, with the place in the file; a stream that does not end is an EOFError."""
    start = file.read(6)
    file.seek(0)
    if start.startswith(_GZIP):
        yield from _inflated(file, size)
    elif start == _XZ:
        yield from _unxzed(file, size)
    else:
        while piece := file.read(size):
            yield piece, file.tell()


def _inflated(file: IO[bytes], size: int) -> Iterator[tuple[bytes, int]]:
    """Gzip, member after member. zlib itself, as the gzip module unpacks a few kilobytes at a time."""
    packed = file.read(_PACKED)
    while packed:
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            if not packed and not (packed := file.read(_PACKED)):
                raise EOFError("the compressed data do not end")
            piece = member.decompress(packed, size)
            packed = member.unconsumed_tail
            if piece:
                yield piece, file.tell() - len(packed)
        packed = member.unused_data.lstrip(b"\0") or file.read(_PACKED)


def _unxzed(file: IO[bytes], size: int) -> Iterator[tuple[bytes, int]]:
    with lzma.open(file) as unpacked:
        while piece := unpacked.read(size):
            yield piece, file.tell()
