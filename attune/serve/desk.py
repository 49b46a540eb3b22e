"""The desk of one agent: lets in as many requests as it can bear, and sees that each is answered, dropped or refused."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from fastapi import Request

from attune.dialogue.types import Turn
from attune.serve.batcher import Asked, Batcher, Given, Talker
from attune.serve.metrics import Metrics
from attune.serve.settings import ServeSettings
from attune.serve.streams import Stream
from attune.web.errors import Problem

T = TypeVar("T")


class Door:
    """Counts who is in. One more than `limit` is sent away, and told when to come back.

    >>> door = Door(1, Metrics())
    >>> leave = door.enter()
    >>> door.inside
    1
    >>> leave()
    >>> door.inside
    0
    """

    def __init__(self, limit: int, metrics: Metrics) -> None:
        self.limit, self.metrics = limit, metrics
        self.inside = 0
        self._usual = 1.0  # seconds that a request is inside, smoothed

    def enter(self) -> Callable[[], None]:
        """Come in, or raise 429. What is returned must be called once to leave; a second call does nothing."""
        if self.inside >= self.limit:
            self.metrics.dropped.labels("full").inc()
            wait = max(1, min(60, math.ceil(self._usual)))
            message = f"{self.inside} requests are under way or waiting; try again in {wait} s"
            raise Problem(429, message, code="queue_full", headers={"Retry-After": str(wait)})
        self._count(1)
        since, inside = time.monotonic(), True

        def leave() -> None:
            nonlocal inside
            if inside:
                inside = False
                self._usual += 0.1 * (time.monotonic() - since - self._usual)
                self._count(-1)

        return leave

    def _count(self, change: int) -> None:
        self.inside += change
        self.metrics.open.set(self.inside)


class Desk:
    """One agent, with the thread that answers batches and the threads that stream. All methods but `close` are for the event loop."""

    def __init__(self, agent: Talker, settings: ServeSettings, metrics: Metrics) -> None:
        self.agent, self.settings, self.metrics = agent, settings, metrics
        self._batcher = Batcher(agent, settings.max_batch, settings.max_wait, metrics.batch.labels(agent.name).observe)
        self._threads = ThreadPoolExecutor(settings.streams, thread_name_prefix=f"streams of {agent.name}")

    async def reply(self, asked: Asked, request: Request) -> Given:
        """A reply, worked out together with others."""
        return await self.within(asyncio.wrap_future(self._batcher.submit(asked)), request)

    def stream(self, asked: Asked) -> Stream:
        """A reply that comes piece by piece. It must be closed."""
        return Stream(self.agent, asked, self._threads, self.metrics)

    async def analyze(self, turns: list[Turn], request: Request) -> Any:
        """What is felt and known."""
        work = asyncio.get_running_loop().run_in_executor(self._threads, self.agent.analyze, turns)
        return await self.within(work, request)

    async def within(self, work: Awaitable[T], request: Request) -> T:
        """What comes of the work, unless its deadline passes or whoever asked goes away; then it is cancelled."""
        task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
        try:
            await asyncio.wait({task, gone}, timeout=self.settings.deadline, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
            raise self.dropped("gone") if gone.done() else self.dropped("late")
        finally:
            task.cancel()
            gone.cancel()

    def dropped(self, why: str) -> Problem:
        """The answer to a request that is not answered any more."""
        self.metrics.dropped.labels(why).inc()
        if why == "gone":
            return Problem(499, "the connection was closed", code="gone")
        message = f"no reply within {self.settings.deadline:g} s; the server is busy"
        return Problem(503, message, code="deadline_exceeded", headers={"Retry-After": "5"})

    def alive(self) -> bool:
        return self._batcher.alive()

    def close(self) -> None:
        """Finish what is under way, then let the agent go."""
        self._batcher.close()
        self._threads.shutdown()
        self.agent.close()


async def _gone(request: Request) -> None:
    """Ends when the connection does; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
