"""The last stage, and the first: the guard hears what the person says, and nothing is said that it does not let through."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from attune.dialogue.types import Context
from attune.generate.reranking import Ranked
from attune.respond.turns import cleaned


class Heard(Protocol):
    """What a guard hears in the person's words. With an `answer`, that is said and nothing is generated."""

    @property
    def risk(self) -> str | None: ...
    @property
    def why(self) -> str: ...
    @property
    def answer(self) -> str | None: ...
    @property
    def machine_asked(self) -> bool: ...


class Checked(Protocol):
    """What a guard thinks of a reply."""

    @property
    def ok(self) -> bool: ...
    @property
    def why(self) -> str: ...


class Guards(Protocol):
    """A guard (:mod:`attune.respond.guard`)."""

    def listen(self, turns: Context) -> Heard: ...
    def check(self, reply: str, turns: Context) -> Checked: ...
    def fallback(self, turns: Context, seed: int = 0) -> str: ...


class Chosen(NamedTuple):
    """What is said, what else could have been, and what the guard did."""

    text: str
    candidates: list[dict[str, Any]]
    guard: dict[str, Any]


class Guarding:
    """A guard at work; without one everything passes."""

    def __init__(self, guard: Guards | None, name: str = "") -> None:
        self.guard, self.name = guard, name

    def listen(self, turns: Context) -> Heard | None:
        return None if self.guard is None else self.guard.listen(turns)

    def answer(self, heard: Heard | None) -> str | None:
        """What is said instead of anything generated: the guard's own answer, or the truth about what is talking."""
        if heard is None:
            return None
        if heard.answer is None and heard.machine_asked:
            who = f"I am {self.name}, a program and not a person." if self.name else "I am a program, not a person."
            return f"{who} I try to understand how you feel, and I can be wrong. What is on your mind?"
        return heard.answer

    def choose(self, turns: Context, heard: Heard | None, ranked: Sequence[Ranked], seed: int) -> Chosen:
        """The first candidate that the guard lets through, or its own reply."""
        candidates: list[dict[str, Any]] = [one._asdict() | {"text": cleaned(one.text)} for one in ranked]
        if self.guard is None:
            return Chosen(candidates[0]["text"] if candidates else "", candidates, report(heard))
        refused = ""
        for candidate in candidates:
            checked = self.guard.check(candidate["text"], turns)
            if checked.ok:
                done = report(heard, "replaced", refused) if refused else report(heard)
                return Chosen(candidate["text"], candidates, done)
            candidate["refused"] = checked.why
            refused = refused or checked.why
        text, done = self.instead(turns, heard, seed, refused or "the system said nothing")
        return Chosen(text, candidates, done)

    def clause(
        self, turns: Context, heard: Heard | None, said: str, clause: str, seed: int
    ) -> tuple[str, dict[str, Any]]:
        """The next clause of a reply if the guard lets it through, or how the reply ends safely instead."""
        checked = self.guard.check(said + clause, turns) if self.guard else None
        if checked is None or checked.ok:
            return clause, report(heard)
        safe, done = self.instead(turns, heard, seed, checked.why)
        if said:
            safe = (" " if said.endswith((".", "!", "?", "…")) else " … ") + safe
            done["action"] = "removed"
        return safe, done

    def instead(self, turns: Context, heard: Heard | None, seed: int, why: str) -> tuple[str, dict[str, Any]]:
        """The guard's own reply; nothing without a guard."""
        if self.guard is None:
            return "", report(heard)
        return self.guard.fallback(turns, seed), report(heard, "replaced", why)


def report(heard: Heard | None, action: str = "none", why: str = "") -> dict[str, Any]:
    """`Reply.guard`.

    >>> report(None)
    {'risk': None, 'why': '', 'action': 'none'}
    """
    return {"risk": heard.risk if heard else None, "why": why or (heard.why if heard else ""), "action": action}
