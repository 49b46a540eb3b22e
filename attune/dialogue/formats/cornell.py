"""Cornell Movie-Dialogs: `movie_conversations` lists line ids, `movie_lines` beside it has who says what.

The first character to speak is the speaker; lines that one character says in a row are one turn. Both files
go film by film, so only one film is held in memory. A dialogue is cut at a line that is missing or empty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from attune.dialogue.formats.base import Bad, Reader
from attune.dialogue.lines import lines
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.errors import DataError, MissingError

BETWEEN = "+++$+++"
_IDS = re.compile(r"\[\s*'\w+'(?:\s*,\s*'\w+')*\s*\]")
_FILES = ("movie_conversations", "movie_lines")


class _Line(NamedTuple):
    number: int
    film: str
    person: str
    text: str


def read_cornell(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of a `movie_conversations.txt[.gz]`; its `movie_lines.txt[.gz]` is found beside it, or the reverse."""
    conversations, spoken = (_beside(path, name) for name in _FILES)
    films = groupby(_said(spoken, bad), key=lambda item: item[1].film)
    passed: dict[str, dict[str, _Line]] = {}  # films that the lines have and the conversations have not reached
    film, here = "", {}
    for number, line in lines(conversations, tolerant=True):
        if not line.strip():
            continue
        cells = _cells(line)
        if len(cells) != 4 or not _IDS.fullmatch(cells[3]):
            bad(conversations, number, f"expected two characters, a film and a list of lines, found {line[:60]!r}")
            continue
        if cells[2] != film:
            film = cells[2]
            while film not in passed and (following := next(films, None)) is not None:
                passed[following[0]] = dict(following[1])
            here = passed.pop(film, {})
        turns = _turns(re.findall(r"\w+", cells[3]), here, conversations, number, spoken, bad)
        if turns:
            yield Dialogue(f"{film}:{number}", turns)


def _said(path: Path, bad: Bad) -> Iterator[tuple[str, _Line]]:
    for number, line in lines(path, tolerant=True):
        cells = _cells(line)
        if len(cells) == 5:
            yield cells[0], _Line(number, cells[2], cells[1], cells[4])
        elif line.strip():
            bad(path, number, f"expected 5 fields between {BETWEEN}, found {len(cells)}: {line[:60]!r}")


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.split(BETWEEN)]


def _turns(ids: list[str], here: dict[str, _Line], path: Path, number: int, spoken: Path, bad: Bad) -> tuple[Turn, ...]:
    people: list[str] = []
    texts: list[tuple[str, str]] = []
    for id in ids:
        line = here.get(id)
        if line is None:
            bad(path, number, f"line {id} is not in {spoken.name}; the dialogue is cut here")
            break
        if not line.text:
            bad(spoken, line.number, f"line {id} is empty; the dialogue is cut here")
            break
        if line.person not in people:
            people.append(line.person)
        if len(people) > len(ROLES):
            bad(path, number, f"a third character, {line.person}, in line {id}; the dialogue is cut here")
            break
        if texts and texts[-1][0] == line.person:
            texts[-1] = (line.person, f"{texts[-1][1]} {line.text}")
        else:
            texts.append((line.person, line.text))
    return tuple(Turn(ROLES[people.index(person)], text) for person, text in texts)


def _beside(path: Path, name: str) -> Path:
    """The file of that name in the folder of the given one, zipped or not."""
    if name in path.name:
        return path
    given = next((known for known in _FILES if known in path.name), None)
    if given is None:
        raise DataError(f"{path}: expected the name {_FILES[0]}.txt or {_FILES[1]}.txt")
    plain = path.with_name(path.name.removesuffix(".gz").replace(given, name))
    for file in (plain, plain.with_name(f"{plain.name}.gz")):
        if file.is_file():
            return file
    raise MissingError(f"{path}: needs {plain.name} (or {plain.name}.gz) beside it")


CORNELL = Reader(
    "cornell",
    "Cornell Movie-Dialogs, movie_conversations and movie_lines",
    lambda head: BETWEEN in head.partition("\n")[0],
    read_cornell,
)
