"""Labelled utterances, as seed 002's classifier data: `id <SEP> text` a line, and the labels' names in `labels.txt`.

The n-th line of `labels.txt` names id n − 1; the number that it repeats is not used, because the public file gives neutral
the id 38, which is questioning's, while the data use 40. Each utterance becomes a dialogue of one turn with that label.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from attune.dialogue.formats.base import Bad, Reader, checked_text, stem
from attune.dialogue.lines import lines
from attune.dialogue.types import Dialogue, Turn
from attune.errors import DataError, MissingError

NAMES = "labels.txt"
_ROW = re.compile(r"\s*(\d+)\s*<SEP>(.*)", re.DOTALL)


def read_labelled(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """The utterances of a file, in its order."""
    names = read_names(path.with_name(NAMES))
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            turn = _turn(line, names)
        except DataError as error:
            bad(path, number, str(error))
        else:
            yield Dialogue(f"{stem(path)}:{number}", (turn,))


def read_names(path: Path) -> list[str]:
    """The labels of a `labels.txt`, by their ids."""
    if not path.is_file():
        raise MissingError(f"no label names at {path}: labelled utterances need {NAMES} beside them, one label a line")
    return [line.split(",")[0].strip().lower() for _, line in lines(path) if line.strip()]


def _turn(line: str, names: list[str]) -> Turn:
    found = _ROW.fullmatch(line)
    if not found:
        raise DataError(f"expected 'id <SEP> text', found {line[:40]!r}")
    if int(found[1]) >= len(names):
        raise DataError(f"expected a label from 0 to {len(names) - 1}, found {found[1][:20]}")
    return Turn("speaker", checked_text(found[2], "the utterance"), names[int(found[1])])


LABELLED = Reader(
    "labelled",
    f"labelled utterances, 'id <SEP> text' with {NAMES} beside it",
    lambda head: _ROW.match(head.split("\n", 1)[0]) is not None,
    read_labelled,
)
