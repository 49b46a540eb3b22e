"""EmpatheticDialogues: the official CSV, and the JSONL with a predicted label per turn.

The CSV quotes nothing: a comma inside a text is written `_comma_` and quotes are literal, so a row is split
on every comma. `speaker_idx` is 0 and 1 in some releases and a worker's id in others: whoever speaks first
is the speaker. A dialogue is cut at its first bad row, because later turns would lack a part of their context.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attune.dialogue.formats.base import Bad, Reader, checked_text, json_lines, optional_text, turn
from attune.dialogue.lines import lines
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.errors import DataError

COLUMNS = ("conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance", "selfeval", "tags")


def read_csv(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of the official CSV. A ninth column (reply candidates in some releases) is not used."""
    rows = lines(path)
    header = next(rows, (1, ""))[1]
    if tuple(header.split(",")[: len(COLUMNS)]) != COLUMNS:
        raise DataError(f"{path}:1: expected the columns {','.join(COLUMNS)}; found {header[:120] or 'nothing'}")
    current = _Conversation("")
    for number, line in rows:
        if not line.strip():
            continue
        cells = line.split(",")
        whole = len(cells) in (len(COLUMNS), len(COLUMNS) + 1)
        # The rest of a row that was broken in two begins with no id: it belongs to the dialogue before it.
        owner = cells[0] if whole or (cells[1:2] and cells[1].isdecimal()) else current.id
        if owner != current.id:
            if current.turns:
                yield current.dialogue()
            current = _Conversation(owner)
        if current.cut and whole:
            continue
        try:
            if not whole:
                raise DataError(f"expected {len(COLUMNS)} columns, found {len(cells)}: {line[:60]!r}")
            current.add(cells)
        except DataError as error:
            bad(path, number, str(error) if current.cut or not current.id else f"{error}; the dialogue is cut here")
            current.cut = True
    if current.turns:
        yield current.dialogue()


class _Conversation:
    """A dialogue while its rows come in."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.turns: list[Turn] = []
        self.people: list[str] = []
        self.about: tuple[str, str] | None = None
        self.cut = False

    def add(self, cells: list[str]) -> None:
        _, index, emotion, situation, person, text = cells[:6]
        if index != str(len(self.turns) + 1):
            raise DataError(f"expected utterance_idx {len(self.turns) + 1} of '{self.id}', found {index!r}")
        if not person.isdecimal():
            raise DataError(f"expected a number as speaker_idx, found {person!r}")
        if person not in self.people and len(self.people) == len(ROLES):
            raise DataError(f"a third speaker_idx in '{self.id}': {person}")
        if not emotion:
            raise DataError(f"no emotion in the column context of '{self.id}'")
        if self.about not in (None, (emotion, situation)):
            raise DataError(f"context or prompt differs from the first row of '{self.id}'")
        text = checked_text(_commas(text), f"utterance {index} of '{self.id}'")
        self.about = (emotion, situation)
        if person not in self.people:
            self.people.append(person)
        self.turns.append(Turn(ROLES[self.people.index(person)], text))

    def dialogue(self) -> Dialogue:
        assert self.about is not None
        emotion, situation = self.about
        return Dialogue(self.id, tuple(self.turns), emotion, _commas(situation).strip() or None)


def _commas(text: str) -> str:
    return text.replace("_comma_", ",")


def read_jsonl(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of the JSONL release; turn labels were predicted by a classifier and are null in three dialogues."""
    return json_lines(path, bad, _dialogue)


def _dialogue(row: Any, _: str) -> Dialogue:
    if not isinstance(row, dict) or not isinstance(row.get("utterances"), list) or not row["utterances"]:
        raise DataError("expected an object with conv_id, context, prompt and a list of utterances")
    id = checked_text(row.get("conv_id"), "conv_id")
    turns = []
    for i, said in enumerate(row["utterances"], 1):
        where = f"utterance {i} of '{id}'"
        if not isinstance(said, dict):
            raise DataError(f"{where}: expected an object with role and text")
        turns.append(turn(said.get("role"), said.get("text"), said.get("label"), where))
    emotion, situation = (optional_text(row, key, f"'{id}'") for key in ("context", "prompt"))
    return Dialogue(id, tuple(turns), emotion, situation)


CSV = Reader(
    "ed-csv",
    "EmpatheticDialogues, the official CSV",
    lambda head: head.startswith(f"{COLUMNS[0]},{COLUMNS[1]},"),
    read_csv,
)
JSONL = Reader(
    "ed-jsonl",
    "EmpatheticDialogues as JSONL, with a label per turn",
    lambda head: head.startswith("{") and '"conv_id"' in head and '"utterances"' in head,
    read_jsonl,
)
