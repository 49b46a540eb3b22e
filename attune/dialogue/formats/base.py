"""What a reader is: how to know a file of its kind, and how to stream the dialogues in it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attune.dialogue.types import Dialogue
from attune.errors import DataError

Bad = Callable[[Path, int, str], None]  # (file, line, reason): notes a bad row, or raises when reading strictly


@dataclass(frozen=True, slots=True)
class Reader:
    """`knows` is asked with a file and the first kilobytes of it; `dialogues` streams, telling `bad` of every bad row."""

    name: str
    about: str
    knows: Callable[[Path, str], bool]
    dialogues: Callable[[Path, Bad], Iterator[Dialogue]]


def parse_json(path: Path, number: int, line: str) -> Any:
    """The JSON value of a line; the error says where and why."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else "not readable"
        raise DataError(f"not JSON: {reason}") from None
