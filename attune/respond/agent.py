"""The agent: a system that is spoken with, turn by turn: `load().reply(["I got the job!"]).text`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from attune.dialogue.types import ROLES, Turn
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError, SettingsError
from attune.files import default_system
from attune.generate.systems import System, open_system

LONGEST = 10_000  # characters of one turn


@dataclass(frozen=True, slots=True)
class Reply:
    """What the agent answers, and what it perceived. `emotions` is empty for a system without an emotion head."""

    text: str
    system: str
    emotion: str | None = None
    emotions: dict[str, float] = field(default_factory=dict)


class Agent:
    """A system to talk with. `turns` are texts that alternate, the person first, or :class:`Turn` objects."""

    def __init__(self, system: System) -> None:
        if "reply" not in system.capabilities:
            raise SettingsError(f"'{system.name}' does not reply; it offers {', '.join(sorted(system.capabilities))}")
        self.system = system

    def reply(self, turns: Sequence[str | Turn], *, seed: int = 0) -> Reply:
        """Answer the last turn of a conversation."""
        context = as_context(turns)
        emotions: dict[str, float] = {}
        if "perceive" in self.system.capabilities:
            shares = self.system.perceive([context])[0].tolist()
            emotions = dict(sorted(zip(EMOTIONS, shares, strict=True), key=lambda pair: -pair[1]))
        said = self.system.reply([context], seed=seed)[0]
        return Reply(said.text, self.system.name, next(iter(emotions), None), emotions)


def load(system: str | Path = "default") -> Agent:
    """The default system, or the one in a run folder, ready to talk."""
    return Agent(open_system(default_system() if str(system) == "default" else system))


def as_context(turns: Sequence[str | Turn]) -> tuple[Turn, ...]:
    """Turns from texts: the last one is the person's, and they alternate backwards from it.

    >>> [turn.role for turn in as_context(["Hi.", "Hello!", "I am sad."])]
    ['speaker', 'listener', 'speaker']
    """
    if not turns:
        raise DataError("there is nothing to answer: give at least one turn")
    context = tuple(
        turn if isinstance(turn, Turn) else Turn(ROLES[(len(turns) - 1 - i) % 2], turn) for i, turn in enumerate(turns)
    )
    for number, turn in enumerate(context, 1):
        if not turn.text.strip():
            raise DataError(f"turn {number} is empty")
        if len(turn.text) > LONGEST:
            raise DataError(f"turn {number} has {len(turn.text):,} characters; at most {LONGEST:,} can be read")
    return context
