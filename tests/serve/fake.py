"""An agent without a model, for tests of the server: deterministic, as slow as wanted, and it counts what it is asked.

`python -m tests.serve.fake` serves it, for tests that need a process of its own.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from attune.dialogue.types import Turn
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError


@dataclass
class FakeReply:
    text: str
    emotion: str | None
    emotions: dict[str, float]
    intent: str | None
    intent_why: str = "it was asked for"
    concepts: list[dict[str, Any]] = field(default_factory=list)
    candidates: list[dict[str, Any]] = field(default_factory=list)
    guard: dict[str, Any] = field(default_factory=lambda: {"risk": None, "why": "", "action": "none"})
    timings: dict[str, float] = field(default_factory=lambda: {"say": 1.0, "total": 1.0})
    system: str = "fake"
    licence: str = "CC0-1.0"

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class FakeAnalysis:
    emotion: str
    emotions: dict[str, float]
    intent: str
    intents: dict[str, float]
    concepts: list[dict[str, Any]]
    graph: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class FakeStream:
    def __init__(self, agent: FakeAgent, reply: FakeReply) -> None:
        self.agent, self._reply = agent, reply
        self.reply: FakeReply | None = None
        self._open = True
        agent.count_stream(1)

    def __iter__(self) -> Iterator[str]:
        for number, word in enumerate(self._reply.text.split(" ")):
            self.agent.work()
            yield word if number == 0 else f" {word}"
        self.reply = self._reply

    def close(self) -> None:
        if self._open:
            self._open = False
            self.agent.count_stream(-1)


class FakeAgent:
    """Answers `I heard: …` with the last turn. One pass takes `latency` seconds, however many replies are in it.

    `going` can be cleared to hold every pass until it is set again. What is asked with the intent "wishing" or
    with the word "unanswerable" cannot be answered; the word "broken" breaks it.
    """

    licence = "CC0-1.0"

    def __init__(self, name: str = "fake", latency: float = 0.0) -> None:
        self.name, self.latency = name, latency
        self.going = threading.Event()
        self.going.set()
        self.batches: list[int] = []
        self.heard: list[list[Turn]] = []
        self.seeds: list[int | None] = []
        self.open_streams = 0
        self.most_streams = 0
        self.closed = self.warm = False
        self._lock = threading.Lock()
        self._pass = threading.Lock()

    def work(self) -> None:
        assert self.going.wait(20)
        time.sleep(self.latency)

    def count_stream(self, change: int) -> None:
        with self._lock:
            self.open_streams += change
            self.most_streams = max(self.most_streams, self.open_streams)

    def reply(
        self, turns: Sequence[Turn], *, intent: str | None = None, seed: int | None = None, stream: bool = False
    ) -> FakeReply | FakeStream:
        reply = self._reply(turns, intent, seed)
        return FakeStream(self, reply) if stream else reply

    def reply_many(
        self,
        conversations: Sequence[Sequence[Turn]],
        *,
        intents: Sequence[str | None] | None = None,
        seeds: Sequence[int | None] | None = None,
    ) -> list[FakeReply]:
        assert self._pass.acquire(blocking=False), "two passes at the same time"
        try:
            self.batches.append(len(conversations))
            self.work()
            known = zip(conversations, intents or [None] * 99, seeds or [None] * 99)
            return [self._reply(turns, intent, seed) for turns, intent, seed in known]
        finally:
            self._pass.release()

    def analyze(self, turns: Sequence[Turn]) -> FakeAnalysis:
        self.work()
        concept = {"text": "dog IsA pet", "keyword": "dog", "relation": "IsA", "concept": "pet", "score": 1.5}
        graph = {"vertices": [{"text": "dog", "kind": "word"}], "edges": []}
        return FakeAnalysis("sad", self._emotions(), "consoling", {"consoling": 1.0}, [concept], graph)

    def warm_up(self) -> None:
        self.warm = True

    def close(self) -> None:
        self.closed = True

    def _reply(self, turns: Sequence[Turn], intent: str | None, seed: int | None) -> FakeReply:
        text = turns[-1].text
        with self._lock:
            self.heard.append(list(turns))
            self.seeds.append(seed)
        if "unanswerable" in text:
            raise DataError("this cannot be answered")
        if "broken" in text:
            raise RuntimeError(f"a secret: {text}")
        return FakeReply(f"I heard: {text}", "sad", self._emotions(), intent or "consoling", system=self.name)

    def _emotions(self) -> dict[str, float]:
        return {name: (0.69 if name == "sad" else 0.01) for name in EMOTIONS}


def main() -> None:
    from attune.serve.app import create_app
    from attune.serve.run import address_of, bound, run
    from attune.serve.settings import ServeSettings

    parser = argparse.ArgumentParser()
    parser.add_argument("--latency", type=float, default=0.0)
    arguments = parser.parse_args()
    listening = bound("127.0.0.1", 0)
    app = create_app(FakeAgent(latency=arguments.latency), ServeSettings())
    print(address_of(listening), flush=True)
    run(app, listening)


if __name__ == "__main__":
    main()
