"""Our own JSONL, one dialogue per line: `{"id", "turns": [{"role", "text", "label"?}], "emotion"?, "situation"?}`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attune.dialogue.formats.base import Bad, Reader, checked_text, json_lines, optional_text, turn
from attune.dialogue.types import Dialogue
from attune.errors import DataError


def read_plain(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of our own JSONL; one without an id gets the file's name and its line as id."""
    return json_lines(path, bad, _dialogue)


def _dialogue(row: Any, id: str) -> Dialogue:
    if not isinstance(row, dict) or not isinstance(row.get("turns"), list) or not row["turns"]:
        raise DataError("expected an object with a list of turns")
    if "id" in row:
        id = checked_text(row["id"], "id")
    turns = []
    for i, said in enumerate(row["turns"], 1):
        where = f"turn {i} of '{id}'"
        if not isinstance(said, dict):
            raise DataError(f"{where}: expected an object with role and text")
        turns.append(turn(said.get("role"), said.get("text"), said.get("label"), where))
    emotion, situation = (optional_text(row, key, f"'{id}'") for key in ("emotion", "situation"))
    return Dialogue(id, tuple(turns), emotion, situation)


def to_json(dialogue: Dialogue) -> str:
    """A dialogue as a line of our own JSONL.

    >>> from attune.dialogue.types import Turn
    >>> to_json(Dialogue("d1", (Turn("speaker", "I won!"),), emotion="proud"))
    '{"id": "d1", "turns": [{"role": "speaker", "text": "I won!"}], "emotion": "proud"}'
    """
    row: dict[str, Any] = {"id": dialogue.id, "turns": []}
    for said in dialogue.turns:
        row["turns"].append({"role": said.role, "text": said.text} | ({"label": said.label} if said.label else {}))
    row |= {key: value for key in ("emotion", "situation") if (value := getattr(dialogue, key)) is not None}
    return json.dumps(row, ensure_ascii=False)


PLAIN = Reader(
    "jsonl",
    'our own JSONL, {"id", "turns": [{"role", "text"}]} per line',
    lambda head: head.startswith("{") and '"turns"' in head,
    read_plain,
)
