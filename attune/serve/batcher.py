"""Requests that come at the same time are answered together: one thread, one `reply_many` per batch."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from attune.dialogue.types import Turn
from attune.generate.engines.chat_client import RemoteError, RemoteRefusal


class Talker(Protocol):
    """What a server needs of an agent (`attune.respond.agent.Agent`)."""

    @property
    def name(self) -> str: ...
    @property
    def licence(self) -> str: ...
    def reply(self, turns: Sequence[Turn], *, intent: str | None, seed: int | None, stream: bool) -> Any: ...
    def reply_many(
        self,
        conversations: Sequence[Sequence[Turn]],
        *,
        intents: Sequence[str | None] | None,
        seeds: Sequence[int | None] | None,
    ) -> list[Any]: ...
    def analyze(self, turns: Sequence[Turn]) -> Any: ...
    def warm_up(self) -> None: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class Asked:
    """A reply that is wanted."""

    turns: Sequence[Turn]
    intent: str | None = None
    seed: int | None = None
    since: float = field(default_factory=time.perf_counter)

    def waited(self) -> float:
        """Milliseconds since it was asked."""
        return round((time.perf_counter() - self.since) * 1000, 1)


@dataclass(frozen=True)
class Given:
    """A reply, and the milliseconds it waited before work on it began."""

    reply: Any
    waited: float


class Batcher:
    """Collects what is asked while a batch is worked out, and for `max_wait` seconds after that, up to `max_batch`.

    Whoever talks alone is not made to wait: a batch waits for company only if the one before it had some. A future that is
    cancelled (nobody wants it any more) is passed over, also where a batch that failed is taken one by one.
    """

    def __init__(self, agent: Talker, max_batch: int, max_wait: float, observe: Callable[[int], None]) -> None:
        self.agent, self.max_batch, self.max_wait, self.observe = agent, max_batch, max_wait, observe
        self._waiting: queue.SimpleQueue[tuple[Asked, Future[Given]] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=f"batches of {agent.name}", daemon=True)
        self._thread.start()

    def submit(self, asked: Asked) -> Future[Given]:
        """Ask for a reply. Cancel the future when it is not wanted any more."""
        future: Future[Given] = Future()
        self._waiting.put((asked, future))
        return future

    def alive(self) -> bool:
        return self._thread.is_alive()

    def close(self) -> None:
        """Finish what was asked, then stop."""
        self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        for batch in self._batches():
            wanted = [(asked, future) for asked, future in batch if not future.cancelled()]
            if wanted:
                self.observe(len(wanted))
                self._answer(wanted)

    def _batches(self) -> Iterator[list[tuple[Asked, Future[Given]]]]:
        batch: list[tuple[Asked, Future[Given]]] = []
        while (first := self._waiting.get()) is not None:
            patience = self.max_wait if len(batch) > 1 else 0.0
            batch, until = [first], time.monotonic() + patience
            while len(batch) < self.max_batch:
                try:
                    further = self._waiting.get(timeout=max(0.0, until - time.monotonic()))
                except queue.Empty:
                    break
                if further is None:  # closing: this batch is the last
                    yield batch
                    return
                batch.append(further)
            yield batch

    def _answer(self, batch: Sequence[tuple[Asked, Future[Given]]]) -> None:
        waited = [asked.waited() for asked, _ in batch]
        try:
            replies = self.agent.reply_many(
                [asked.turns for asked, _ in batch],
                intents=[asked.intent for asked, _ in batch],
                seeds=[asked.seed for asked, _ in batch],
            )
        except Exception as error:  # it belongs to whoever asked; this thread serves everybody
            if len(batch) == 1 or _for_all(error):
                for _, future in batch:
                    if future.set_running_or_notify_cancel():
                        future.set_exception(error)
                return
            for asked, future in batch:  # one that cannot be answered must not take the others with it
                if not future.cancelled():
                    self._answer([(asked, future)])
            return
        for (_, future), reply, milliseconds in zip(batch, replies, waited, strict=True):
            if future.set_running_or_notify_cancel():
                future.set_result(Given(reply, milliseconds))


def _for_all(error: Exception) -> bool:
    """Whether the others of a batch would fare the same: an engine that is away was tried long enough."""
    return isinstance(error, RemoteError) and not isinstance(error, RemoteRefusal)
