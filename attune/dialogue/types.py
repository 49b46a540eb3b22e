"""The three things every other package speaks of: a dialogue, its turns, and an example made of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Role = Literal["speaker", "listener"]
ROLES: tuple[Role, Role] = ("speaker", "listener")


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance. `label` is the corpus's own, one of the 41 in EmpatheticDialogues (training and statistics only)."""

    role: Role
    text: str
    label: str | None = None


@dataclass(frozen=True, slots=True)
class Dialogue:
    """A conversation. The speaker opens and feels; the listener answers.

    >>> d = Dialogue("d1", (Turn("speaker", "I got the job!"), Turn("listener", "Congratulations!")))
    >>> d.turns[1].role
    'listener'
    """

    id: str
    turns: tuple[Turn, ...]
    emotion: str | None = None
    situation: str | None = None


@dataclass(frozen=True, slots=True)
class Example:
    """(context, response) and, for training only, what the listener could not know.

    At test time a system sees `context` and nothing else (DESIGN 3.2): `emotion`, `situation`, `feedback`
    and the turns' labels are there for the loss and for the leak audit.
    """

    id: str  # "conv_id:turn", the 1-based position of the response in its dialogue
    context: tuple[Turn, ...]
    response: Turn
    emotion: str | None = None
    situation: str | None = None
    feedback: Turn | None = None


Context = tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that could not be read: where it stands and why."""

    file: str
    line: int
    reason: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}"


@dataclass(slots=True)
class ReadReport:
    """Filled by a reader while it streams: how much was read, and every bad row."""

    dialogues: int = 0
    turns: int = 0
    bad: list[BadRow] = field(default_factory=list)
