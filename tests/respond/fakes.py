"""A speaker, a guard and a recall that are small, deterministic and remember what they were asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.generate.saying import Ask, Candidate
from attune.generate.settings import Decoding
from attune.generate.systems import Said
from attune.knowledge.ckece import EmotionalConcept
from attune.respond.agent import Agent
from attune.respond.stages import Shares

REPLIES = ("I am so sorry to hear that.", "Oh no, poor {}! How do you feel now?", "That is something.", "I see.")


class FakeSystem:
    """Says one of four replies by its seed; perceives `sad` when the person says so, else `joyful`; decides to question."""

    name, corpus = "fake", "made-up"
    path: Path | None = None
    decoding = Decoding()
    typed = False

    def __init__(self, *capabilities: str, replies: Sequence[str] = REPLIES) -> None:
        self.capabilities = frozenset(capabilities or ("reply", "perceive", "decide", "say"))
        self.replies = replies
        self.asks: list[Ask] = []
        self.batches: list[int] = []
        self.stopped = self.ended = 0
        self.closed = False
        self._inside = threading.Lock()

    def perceive(self, contexts: Sequence[Context]) -> np.ndarray:
        with self.alone():
            found = np.full((len(contexts), 32), 0.01)
            for row, context in zip(found, contexts):
                row[EMOTIONS.index("sad" if "sad" in context[-1].text else "joyful")] = 0.69
            return found

    def decide(self, contexts: Sequence[Context]) -> np.ndarray:
        found = np.full((len(contexts), 41), 0.01)
        found[:, LABELS.index("questioning")] = 0.6
        return found

    def reply(self, contexts: Sequence[Context], *, seed: int = 0, **_: Any) -> list[Said]:
        with self.alone():
            self.batches.append(len(contexts))
            return [Said("", self.said(context, seed)) for context in contexts]

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        with self.alone():
            self.asks += asks
            self.batches.append(len(asks))
            return [
                [Candidate(self.said(ask.context, ask.seed + i), -5.0 - i, 10) for i in range(ask.count)]
                for ask in asks
            ]

    def stream(self, ask: Ask) -> Iterator[str]:
        self.asks.append(ask)
        try:
            for word in self.said(ask.context, ask.seed).split(" "):
                yield f"{word} "
            self.ended += 1
        except GeneratorExit:
            self.stopped += 1
            raise

    def said(self, context: Context, seed: int) -> str:
        return self.replies[seed % len(self.replies)].format(context[-1].text.split()[-1].strip(".!"))

    def close(self) -> None:
        self.closed = True

    def alone(self) -> _Alone:
        return _Alone(self._inside)


class _Alone:
    """Fails if two threads are inside at once."""

    def __init__(self, lock: threading.Lock) -> None:
        self.lock = lock

    def __enter__(self) -> None:
        assert self.lock.acquire(blocking=False), "two threads called the system at once"
        time.sleep(0.001)

    def __exit__(self, *_: object) -> None:
        self.lock.release()


class Heard(NamedTuple):
    risk: str | None
    why: str
    answer: str | None
    machine_asked: bool = False


class Checked(NamedTuple):
    ok: bool
    kind: str | None
    why: str


class FakeGuard:
    """Answers `kill myself` itself, and refuses replies with `stupid`."""

    def __init__(self) -> None:
        self.heard: list[Context] = []

    def listen(self, turns: Context) -> Heard:
        self.heard.append(turns)
        if "kill myself" in turns[-1].text:
            return Heard("self-harm", "they say that they want to die", "I am glad you told me. Please call for help.")
        if "a machine?" in turns[-1].text:
            return Heard(None, "they ask whether this is a machine", None, machine_asked=True)
        return Heard(None, "", None)

    def check(self, reply: str, turns: Context) -> Checked:
        bad = "stupid" in reply
        return Checked(not bad, "insult" if bad else None, "it insults" if bad else "")

    def fallback(self, turns: Context, seed: int = 0) -> str:
        return "I am here and I am listening."


def recall(contexts: Sequence[Context]) -> list[list[EmotionalConcept]]:
    return [[EmotionalConcept("dog", "IsA", "pet", 0.4, 0.8, 0.5)] for _ in contexts]


def decide_nothing(contexts: Sequence[Context], felt: Sequence[Shares]) -> list[Any]:
    raise AssertionError("not asked")


def fake_agent(system: FakeSystem | None = None, **settings: Any) -> Agent:
    """An agent around a fake system, with the fake guard and recall unless told otherwise; no sentence encoder, no labeller."""
    agent = Agent(system or FakeSystem(), **{"guard": FakeGuard(), "recall": recall, "labeller": None, **settings})
    agent.reranker._encoder = None
    return agent
