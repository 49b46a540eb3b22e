"""Text files read line by line: plain or gzip, never a whole file in memory, never a binary one by mistake."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

from attune.errors import DataError, MissingError

LONGEST_LINE = 1_000_000  # bytes; a longer line is no row of any corpus


def open_binary(path: Path) -> IO[bytes]:
    """A file opened for reading; gzip is known by its first bytes, not by its name."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        raise MissingError(f"no file at {path}") from None
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from None
    if file.peek(2)[:2] == b"\x1f\x8b":
        return cast("IO[bytes]", gzip.GzipFile(fileobj=file))
    return file


def lines(path: Path, *, tolerant: bool = False) -> Iterator[tuple[int, str]]:
    """(number, line without its end) of a UTF-8 file. `tolerant` reads what is not UTF-8 as Windows-1252."""
    with open_binary(path) as file:
        number = 0
        while True:
            number += 1
            try:
                raw = file.readline(LONGEST_LINE + 1)
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{path}:{number}: cannot be read: {error}") from None
            if not raw:
                return
            if b"\0" in raw:
                raise DataError(f"{path}:{number}: expected text, found a binary file")
            if len(raw) > LONGEST_LINE:
                raise DataError(
                    f"{path}:{number}: a line of more than {LONGEST_LINE:,} bytes; is this a text file with one row per line?"
                )
            try:
                line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                if not tolerant:
                    byte = f"byte 0x{raw[error.start]:02x}"
                    raise DataError(
                        f"{path}:{number}: expected UTF-8 text, found {byte} at position {error.start + 1}"
                    ) from None
                line = raw.decode("cp1252", errors="replace")
            yield number, line.rstrip("\r\n")


def first_text(path: Path) -> str:
    """The first kilobytes of a text file, without space before them; enough to tell its format."""
    with open_binary(path) as file:
        try:
            start = file.read(1 << 14)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{path}: cannot be read: {error}") from None
    if b"\0" in start:
        raise DataError(f"{path}: expected text, found a binary file")
    text = start.decode("utf-8-sig", errors="replace").lstrip()
    if not text:
        raise DataError(f"{path}: is empty")
    return text
