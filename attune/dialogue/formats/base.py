"""What a reader is: how to know a file of its kind, and how to stream the dialogues in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attune.dialogue.lines import lines
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.errors import DataError

Bad = Callable[[Path, int, str], None]  # (file, line, reason): notes a bad row, or raises when reading strictly


@dataclass(frozen=True, slots=True)
class Reader:
    """`knows` tells from a file's first kilobytes whether it is of this kind; `dialogues` streams it."""

    name: str
    about: str
    knows: Callable[[str], bool]
    dialogues: Callable[[Path, Bad], Iterator[Dialogue]]


def parse_json(text: str) -> Any:
    """A JSON value, or a `DataError` that says why not."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits; brackets nested without end
        raise DataError("not JSON that can be read") from None


def json_lines(path: Path, bad: Bad, dialogue: Callable[[Any, str], Dialogue]) -> Iterator[Dialogue]:
    """One dialogue per line of JSON; `dialogue` makes it from the value and an id for values without one."""
    for number, line in lines(path):
        if line.strip():
            try:
                yield dialogue(parse_json(line), f"{stem(path)}:{number}")
            except DataError as error:
                bad(path, number, str(error))


def stem(path: Path) -> str:
    """The name of a file without its endings: `talks.jsonl.gz` → `talks`."""
    return path.name.split(".")[0]


def turn(role: Any, text: Any, label: Any, where: str) -> Turn:
    """A checked turn of values out of a file; `where` names it in errors."""
    if role not in ROLES:
        raise DataError(f"{where}: expected the role speaker or listener, found {role!r}")
    if label is not None and not isinstance(label, str):
        raise DataError(f"{where}: expected a label or null, found {label!r}")
    return Turn(role, checked_text(text, where), label)


def checked_text(text: Any, where: str) -> str:
    """A text that is there and can be written as UTF-8 (JSON can hold halves of characters)."""
    if not isinstance(text, str):
        raise DataError(f"{where}: expected text, found {str(text)[:40]!r}")
    text = text.strip()
    if not text:
        raise DataError(f"{where} is empty")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise DataError(f"{where}: holds half a character (a lone surrogate)")
    return text


def optional_text(row: dict[str, Any], key: str, where: str) -> str | None:
    """The text under a key that may be absent, null or empty."""
    return checked_text(row[key], f"{key} of {where}") if row.get(key) not in (None, "") else None
