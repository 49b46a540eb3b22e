"""One way in: `read` streams the dialogues of a file or corpus folder, whatever its format.

>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder, "mine.jsonl")
...     _ = path.write_text('{"id": "d1", "turns": [{"role": "speaker", "text": "I won!"}]}')
...     [dialogue.turns[0].text for dialogue in read(path)]
['I won!']
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from attune.dialogue.formats.base import Reader
from attune.dialogue.lines import lines, open_binary
from attune.dialogue.types import BadRow, Dialogue, ReadReport
from attune.errors import DataError, MissingError, SettingsError, did_you_mean
from attune.registry import Registry

READERS: Registry[Reader] = Registry(
    "reader",
    {
        "ed-csv": "attune.dialogue.formats.empathetic:CSV",
        "ed-jsonl": "attune.dialogue.formats.empathetic:JSONL",
    },
)
SPLITS = ("train", "valid", "test")


def read(
    path: str | Path,
    *,
    reader: str | None = None,
    split: str | None = None,
    strict: bool = False,
    report: ReadReport | None = None,
) -> Iterator[Dialogue]:
    """Stream the dialogues of a file, or of a corpus folder (all its splits, or one).

    A bad row stops the reading when `strict`; otherwise it is left out and noted in `report`. A file in which
    no row is good is an error. Without `reader`, each file's format is told from its first lines.
    """
    path = Path(path)
    report = report if report is not None else ReadReport()
    if path.is_dir():
        found = splits(path)
        if split is not None and split not in found:
            raise SettingsError(f"{path}: {did_you_mean(split, found, 'split')}")
        files = [found[split]] if split is not None else list(found.values())
    elif split is not None:
        raise SettingsError(f"{path} is a file; a split can only be picked from a corpus folder")
    else:
        files = [path]
    for file in files:
        yield from _read_file(file, READERS[reader] if reader else detect(file), strict, report)


def _read_file(path: Path, reader: Reader, strict: bool, report: ReadReport) -> Iterator[Dialogue]:
    before = report.dialogues, len(report.bad)

    def bad(file: Path, line: int, reason: str) -> None:
        row = BadRow(str(file), line, reason)
        if strict:
            raise DataError(str(row))
        report.bad.append(row)

    for dialogue in reader.dialogues(path, bad):
        report.dialogues += 1
        report.turns += len(dialogue.turns)
        yield dialogue
    if report.dialogues == before[0]:
        first = (
            f"; the first of {len(report.bad) - before[1]} bad rows: {report.bad[before[1]]}"
            if report.bad[before[1] :]
            else ""
        )
        raise DataError(f"{path}: holds no dialogue that the reader '{reader.name}' can read{first}")


def detect(path: Path) -> Reader:
    """The reader for a file, told from its first kilobytes."""
    with open_binary(path) as file:
        start = file.read(8192)
    if not start.strip():
        raise DataError(f"{path}: is empty")
    if b"\0" in start:
        raise DataError(f"{path}: expected text, found a binary file")
    head = start.decode("utf-8-sig", errors="replace")
    for reader in READERS.values():
        if reader.knows(path, head):
            return reader
    raise DataError(
        f"{path}: not a format that is known; it begins with {head.splitlines()[0][:60]!r}. "
        f"Readers: {', '.join(f'{reader.name} ({reader.about})' for reader in READERS.values())}"
    )


def splits(path: str | Path) -> dict[str, Path]:
    """The files of a corpus folder by split. Of a CSV and a JSONL of the same split, the CSV is taken."""
    path = Path(path)
    if not path.is_dir():
        raise MissingError(f"no corpus folder at {path}")
    found: dict[str, Path] = {}
    for split in SPLITS:
        for name in (f"{split}.csv", f"{split}.jsonl"):
            if split not in found and (path / name).is_file():
                found[split] = path / name
    if not found:
        raise DataError(f"{path}: holds no split that is known")
    return found
