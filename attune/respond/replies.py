"""What the agent gives back: a reply with everything behind it, and the analysis of a conversation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

STAGES = ("perceive", "recall", "decide", "say", "guard")


@dataclass(frozen=True)
class Reply:
    """What the agent answers, and why. Everything but `text`, `system` and `licence` is empty where a stage is off."""

    text: str
    system: str
    licence: str = ""
    emotion: str | None = None
    """What the speaker feels most."""
    emotions: dict[str, float] = field(default_factory=dict)
    """All 32 with their probabilities, highest first."""
    intent: str | None = None
    """The label of the reply that was aimed at: an intent, an emotion, or neutral."""
    intent_why: str = ""
    """Why this one, in a sentence."""
    concepts: list[dict[str, Any]] = field(default_factory=list)
    """What was recalled: head, relation, tail, score and the parts of the score; most telling first."""
    candidates: list[dict[str, Any]] = field(default_factory=list)
    """What could have been said: text, score and scores; best first. With `refused`, why the guard did not let it through."""
    guard: dict[str, Any] = field(default_factory=lambda: {"risk": None, "why": "", "action": "none"})
    """risk: None or its kind; why; action: none, answered (a message written by people), replaced, or removed (its rest)."""
    timings: dict[str, float] = field(default_factory=dict)
    """Milliseconds per stage and in all; of a streamed reply also `first`, until its first text. A batch shares its times."""
    seed: int = 0
    """Gives the same reply again."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Analysis:
    """What is felt in a conversation, what reply it calls for, and what people commonly know about it."""

    emotion: str | None
    emotions: dict[str, float]
    intent: str | None
    intents: dict[str, float]
    """All 41 labels of the reply to give, highest first; empty if the system does not decide."""
    concepts: list[dict[str, Any]]
    graph: dict[str, Any]
    """The emotional context graph: nodes (id, text, kind, intensity, valence, turn, role) and edges (from, to, relation)."""

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return asdict(self)


class Clock:
    """Adds up milliseconds per stage.

    >>> clock = Clock()
    >>> with clock("say"):
    ...     pass
    >>> list(clock.timings())
    ['perceive', 'recall', 'decide', 'say', 'guard', 'total']
    """

    def __init__(self) -> None:
        self._spent = dict.fromkeys(STAGES, 0.0)
        self._started = time.perf_counter()
        self._first: float | None = None

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._spent[stage] += time.perf_counter() - started

    def first(self) -> None:
        """Text comes out; only the first time counts."""
        if self._first is None:
            self._first = time.perf_counter() - self._started

    def timings(self) -> dict[str, float]:
        """What was spent so far."""
        spent = {**self._spent, "total": time.perf_counter() - self._started}
        if self._first is not None:
            spent["first"] = self._first
        return {stage: round(1000 * seconds, 2) for stage, seconds in spent.items()}
