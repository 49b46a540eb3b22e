"""Text files read line by line: plain or gzip, never a whole file in memory, never a binary one by mistake."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from attune.errors import DataError, MissingError

LONGEST_LINE = 1_000_000  # bytes; a longer line is no row of any corpus


def lines(path: Path, *, tolerant: bool = False) -> Iterator[tuple[int, str]]:
    """(number, line without its end) of a UTF-8 file. `tolerant` reads what is not UTF-8 as Windows-1252."""
    for number, raw in raw_lines(path):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            if not tolerant:
                found = f"byte 0x{raw[error.start]:02x} at position {error.start + 1}"
                raise DataError(f"{path}:{number}: expected UTF-8 text, found {found}") from None
            line = raw.decode("cp1252", errors="replace")
        yield number, line.rstrip("\r\n")


def raw_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """(number, bytes) of every line; a binary file or a line without end is refused."""
    with _opened(path) as file:
        number = 0
        while raw := file.readline(LONGEST_LINE + 1):
            number += 1
            if b"\0" in raw:
                raise DataError(f"{path}:{number}: expected text, found a binary file")
            if len(raw) > LONGEST_LINE:
                raise DataError(
                    f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; expected one row per line"
                )
            yield number, raw


def first_text(path: Path) -> str:
    """The first kilobytes of a text file, without space before them; enough to tell its format."""
    with _opened(path) as file:
        start = file.read(1 << 14)
    if b"\0" in start:
        raise DataError(f"{path}: expected text, found a binary file")
    text = start.decode("utf-8-sig", errors="replace").lstrip()
    if not text:
        raise DataError(f"{path}: is empty")
    return text


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    """A file opened for reading; gzip is known by its first bytes, not by its name."""
    try:
        with path.open("rb") as file:
            if file.peek(2)[:2] != b"\x1f\x8b":
                yield file
                return
            with gzip.GzipFile(fileobj=file) as unzipped:
                yield unzipped  # type: ignore[misc]
    except FileNotFoundError:
        raise MissingError(f"no file at {path}") from None
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
