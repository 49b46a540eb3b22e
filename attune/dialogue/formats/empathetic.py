"""EmpatheticDialogues: the official CSV, and the JSONL with a predicted label per turn.

The CSV quotes nothing: a comma inside a text is written `_comma_` and quotes are literal, so a row is split
on every comma. `speaker_idx` is 0 and 1 in some releases and a worker's id in others: whoever speaks first
is the speaker. A dialogue is cut at its first bad row, because later turns would lack a part of their context.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attune.dialogue.formats.base import Bad, Reader, parse_json
from attune.dialogue.lines import lines
from attune.dialogue.types import ROLES, Dialogue, Turn
from attune.errors import DataError

COLUMNS = ("conv_id", "utterance_idx", "context", "prompt", "speaker_idx", "utterance", "selfeval", "tags")


def read_csv(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of the official CSV. A ninth column (reply candidates in some releases) is not used."""
    rows = lines(path)
    header = next(rows, (1, ""))[1]
    if tuple(header.split(",")[: len(COLUMNS)]) != COLUMNS:
        raise DataError(f"{path}:1: expected the columns {','.join(COLUMNS)}; found {header[:120] or 'an empty file'}")
    building: _Building | None = None
    for number, line in rows:
        cells = line.split(",")
        whose = cells[0] if len(cells) > 1 and cells[1].isdigit() else None
        if whose and (building is None or building.id != whose):
            if building and building.turns:
                yield building.dialogue()
            building = _Building(whose)
        try:
            if whose is None or len(cells) not in (8, 9):
                raise DataError(f"expected {len(COLUMNS)} columns, found {len(cells)}: {line[:60]!r}")
            assert building is not None
            building.add(cells)
        except DataError as error:
            cut = building is not None and not building.cut
            bad(path, number, f"{error}{'; the dialogue is cut here' if cut else ''}")
            if building:
                building.cut = True
    if building and building.turns:
        yield building.dialogue()


class _Building:
    """A dialogue while its rows come in."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.turns: list[Turn] = []
        self.people: list[str] = []
        self.about: tuple[str, str] | None = None
        self.cut = False

    def add(self, cells: list[str]) -> None:
        if self.cut:
            return
        _, index, emotion, situation, person, text = cells[:6]
        text = _commas(text).strip()
        if int(index) != len(self.turns) + 1:
            raise DataError(f"expected utterance_idx {len(self.turns) + 1} of {self.id}, found {index}")
        if not text:
            raise DataError(f"utterance {index} of {self.id} is empty")
        if not person.isdigit():
            raise DataError(f"expected a number as speaker_idx, found {person!r}")
        if person not in self.people and len(self.people) == 2:
            raise DataError(f"a third speaker_idx, {person}, in {self.id}")
        if not emotion:
            raise DataError(f"{self.id} has no emotion in the column context")
        if self.about is None:
            self.about = (emotion, situation)
        elif self.about != (emotion, situation):
            raise DataError(f"context or prompt of {self.id} differs from its first row")
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
    for number, line in lines(path):
        if not line.strip():
            continue
        try:
            yield _dialogue(parse_json(path, number, line))
        except DataError as error:
            bad(path, number, str(error))


def _dialogue(row: Any) -> Dialogue:
    if (
        not isinstance(row, dict)
        or not isinstance(row.get("conv_id"), str)
        or not isinstance(row.get("utterances"), list)
    ):
        raise DataError("expected an object with conv_id, context, prompt and utterances")
    turns = []
    for i, turn in enumerate(row["utterances"], 1):
        if not isinstance(turn, dict) or turn.get("role") not in ROLES:
            raise DataError(f"utterance {i} of {row['conv_id']}: expected the role speaker or listener")
        if not isinstance(turn.get("text"), str) or not turn["text"].strip():
            raise DataError(f"utterance {i} of {row['conv_id']} is empty")
        label = turn.get("label")
        if label is not None and not isinstance(label, str):
            raise DataError(f"utterance {i} of {row['conv_id']}: expected a label or null, found {label!r}")
        turns.append(Turn(turn["role"], turn["text"].strip(), label))
    if not turns:
        raise DataError(f"{row['conv_id']} has no utterances")
    for key in ("context", "prompt"):
        if row.get(key) is not None and not isinstance(row[key], str):
            raise DataError(f"{row['conv_id']}: expected text as {key}, found {row[key]!r}")
    return Dialogue(row["conv_id"], tuple(turns), row.get("context") or None, row.get("prompt") or None)


CSV = Reader(
    "ed-csv",
    "EmpatheticDialogues, the official CSV",
    lambda path, head: head.startswith(",".join(COLUMNS)),
    read_csv,
)
JSONL = Reader(
    "ed-jsonl",
    "EmpatheticDialogues as JSONL, with a label per turn",
    lambda path, head: head.lstrip().startswith("{") and '"conv_id"' in head and '"utterances"' in head,
    read_jsonl,
)
