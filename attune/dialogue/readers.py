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
from dataclasses import replace
from pathlib import Path

from attune.dialogue.formats.base import Reader
from attune.dialogue.lines import first_text
from attune.dialogue.types import BadRow, Dialogue, ReadReport
from attune.errors import DataError, MissingError, SettingsError, did_you_mean
from attune.registry import Registry

READERS: Registry[Reader] = Registry(
    "reader",
    {
        "ed-csv": "attune.dialogue.formats.empathetic:CSV",
        "ed-jsonl": "attune.dialogue.formats.empathetic:JSONL",
        "dailydialog": "attune.dialogue.formats.dailydialog:DAILYDIALOG",
        "cornell": "attune.dialogue.formats.cornell:CORNELL",
        "jsonl": "attune.dialogue.formats.plain:PLAIN",
        "chat": "attune.dialogue.formats.chat:CHAT",
        "labelled": "attune.dialogue.formats.labelled:LABELLED",
    },
)
# The names a split's file may have, the first found counts; `{}` stands for a name of the split.
_SPLIT_NAMES = {"train": ("train",), "valid": ("valid", "validation", "dev"), "test": ("test",)}
_FILE_NAMES = ("{}.csv", "{}.jsonl", "{}.json", "dialogues_{}.txt", "{}/dialogues_{}.txt", "{}.txt")
_WHOLE = "movie_conversations.txt"  # a corpus without splits


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
    no row is good is an error. Without `reader`, each file's format is told from its first lines; with it, the
    files of that format are taken from a folder.
    """
    path = Path(path)
    report = report if report is not None else ReadReport()
    chosen = READERS[reader] if reader else None
    if path.is_dir():
        found = splits(path, reader=reader)
        if split is not None and split not in found:
            raise SettingsError(f"{path}: {did_you_mean(split, found, 'split')}")
        files = [found[split]] if split is not None else list(found.values())
    elif split is not None and path.exists():
        raise SettingsError(f"{path} is a file; a split can only be picked from a corpus folder")
    else:
        files = [path]
    for file in files:
        yield from _read_file(file, chosen or detect(file), strict, report)


def labelled(path: str | Path, split: str, report: ReadReport | None = None) -> Iterator[Dialogue]:
    """The dialogues of one split, with the label of each turn where the corpus folder has them.

    EmpatheticDialogues' CSV has none; its JSONL, if it lies beside, lends them. Everything else is as :func:`read` gives it.
    """
    try:
        beside = splits(path, reader="ed-jsonl").get(split)
    except DataError:
        beside = None
    found = read(path, split=split, report=report)
    if beside is None:
        yield from found
        return
    labels = {d.id: [turn.label for turn in d.turns] for d in read(beside, reader="ed-jsonl")}
    for dialogue in found:
        known = labels.get(dialogue.id, [])
        if len(known) == len(dialogue.turns):
            turns = (
                replace(turn, label=turn.label or label) for turn, label in zip(dialogue.turns, known, strict=True)
            )
            dialogue = replace(dialogue, turns=tuple(turns))
        yield dialogue


def _read_file(path: Path, reader: Reader, strict: bool, report: ReadReport) -> Iterator[Dialogue]:
    dialogues, rows = report.dialogues, len(report.bad)

    def bad(file: Path, line: int, reason: str) -> None:
        row = BadRow(str(file), line, reason)
        if strict:
            raise DataError(str(row))
        report.bad.append(row)

    for dialogue in reader.dialogues(path, bad):
        report.dialogues += 1
        report.turns += len(dialogue.turns)
        yield dialogue
    if report.dialogues == dialogues:
        found = report.bad[rows:]
        first = f"; the first of {len(found)} bad rows: {found[0]}" if found else ""
        raise DataError(f"{path}: holds no dialogue that the reader '{reader.name}' can read{first}")


def detect(path: str | Path) -> Reader:
    """The reader for a file, told from its first kilobytes."""
    head = first_text(Path(path))
    for reader in READERS.values():
        if reader.knows(head):
            return reader
    if Path(path).name.endswith((".csv", ".csv.gz")):
        return READERS["ed-csv"]  # it will say which columns it expects
    known = "; ".join(f"{reader.name}: {reader.about}" for reader in READERS.values())
    raise DataError(
        f"{path}: no reader knows this format, it begins with {head.splitlines()[0][:40]!r}. Readers: {known}"
    )


def splits(path: str | Path, *, reader: str | None = None) -> dict[str, Path]:
    """The files of a corpus folder by split (`all` for a corpus without splits).

    Of a CSV and a JSONL of the same split the CSV is taken, unless `reader` asks for the other.
    """
    path = Path(path)
    if not path.is_dir():
        raise MissingError(f"no corpus folder at {path}")
    found: dict[str, Path] = {}
    for split, words in _SPLIT_NAMES.items():
        names = [name.replace("{}", word) for name in _FILE_NAMES for word in words]
        if file := _first(path, names, reader):
            found[split] = file
    if not found and (file := _first(path, [_WHOLE], reader)):
        found["all"] = file
    if not found:
        kind = f" for the reader '{reader}'" if reader else ""
        expected = ", ".join(name.replace("{}", "train") for name in _FILE_NAMES)
        raise DataError(f"{path}: holds no corpus{kind}; expected {expected} (valid and test likewise) or {_WHOLE}")
    return found


def _first(folder: Path, names: list[str], reader: str | None) -> Path | None:
    files = (folder / f"{name}{ending}" for name in names for ending in ("", ".gz"))
    return next((f for f in files if f.is_file() and (not reader or READERS[reader].knows(first_text(f)))), None)
