"""A conversation that goes on: what was said by both, and how the next reply is to be."""

from __future__ import annotations

import json
from collections.abc import Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from attune.dialogue.types import Turn
from attune.errors import AttuneError
from attune.files import atomic_write
from attune.respond.agent import Agent
from attune.respond.replies import Reply


class Conversation:
    """Turns with an agent. `intent`, if set, is asked for with every reply; `agent` may be changed for another."""

    def __init__(self, agent: Agent, *, seed: int | None = None) -> None:
        self.agent, self.seed = agent, seed
        self.intent: str | None = None
        self.restart()

    def restart(self) -> None:
        """Forget what was said; agent, tone and intent stay."""
        self.exchanges: list[tuple[str, Reply]] = []  # what the person said, and what was answered
        self._begun = datetime.now(UTC)

    @property
    def turns(self) -> list[Turn]:
        """Everything that was said, in order."""
        both = ((Turn("speaker", text), Turn("listener", reply.text)) for text, reply in self.exchanges)
        return [turn for pair in both for turn in pair if turn.text]

    def reply(self, text: str) -> Reply:
        """Say something and be answered; what cannot be answered is not part of the conversation."""
        said = [*self.turns, Turn("speaker", text)]
        reply = self.agent.reply(said, intent=self.intent, seed=self.seed)
        self.exchanges.append((text, reply))
        return reply

    def stream(self, text: str) -> Generator[str, None, None]:
        """The same, piece by piece. What is closed before its end is not part of the conversation either."""
        said = [*self.turns, Turn("speaker", text)]
        with self.agent.reply(said, intent=self.intent, seed=self.seed, stream=True) as pieces:
            yield from pieces
            self.exchanges.append((text, pieces.reply))

    def as_json(self) -> dict[str, Any]:
        """As chat messages with what is behind each reply: every verb that reads dialogues reads this."""
        messages: list[dict[str, Any]] = []
        for text, reply in self.exchanges:
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": reply.text, "attune": reply.to_dict()})
        return {"id": f"chat-{self._begun:%Y-%m-%dT%H:%M:%SZ}", "messages": messages}

    def save(self, path: str | Path) -> Path:
        """Write it to a new file."""
        file = Path(path).expanduser()
        if not self.exchanges:
            raise AttuneError("nothing was said yet, so there is nothing to save")
        if file.exists():
            raise AttuneError(f"{file} exists already; choose another name")
        with atomic_write(file) as out:
            json.dump(self.as_json(), out, ensure_ascii=False, indent=1)
        return file
