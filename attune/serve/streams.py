"""A streamed reply: it is said in a thread and handed over piece by piece; when nobody listens any more, it stops."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from concurrent.futures import Executor
from contextlib import suppress
from typing import Any

from attune.serve.batcher import Asked, Given, Talker
from attune.serve.metrics import Metrics


class Stream:
    """Pieces of text, then the :class:`Given` reply. `close()` frees its thread after the piece it is at.

    Made inside a running event loop; the agent is called in the executor's threads only.
    """

    def __init__(self, agent: Talker, asked: Asked, executor: Executor, metrics: Metrics) -> None:
        self._agent, self._asked, self._metrics = agent, asked, metrics
        self._loop = asyncio.get_running_loop()
        self._pieces: asyncio.Queue[str | Given | Exception] = asyncio.Queue()
        self._unwanted = threading.Event()
        self._future = executor.submit(self._say)

    async def next(self) -> str | Given:
        """What comes next; the last is a Given. What went wrong while it was said is raised here."""
        piece = await self._pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece

    async def __aiter__(self) -> AsyncIterator[str | Given]:
        while True:
            piece = await self.next()
            yield piece
            if isinstance(piece, Given):
                return

    def close(self) -> None:
        """Nobody listens any more."""
        self._unwanted.set()
        self._future.cancel()

    def _say(self) -> None:
        waited = self._asked.waited()
        with self._metrics.streams.track_inprogress():
            try:
                self._put(Given(self._said(), waited))
            except Exception as error:  # it belongs to whoever listens
                self._put(error)

    def _said(self) -> Any:
        asked = self._asked
        stream = self._agent.reply(asked.turns, intent=asked.intent, seed=asked.seed, stream=True)
        try:
            for piece in stream:
                if self._unwanted.is_set():
                    return None
                self._put(piece)
            return stream.reply
        finally:
            stream.close()

    def _put(self, piece: str | Given | Exception) -> None:
        with suppress(RuntimeError):  # the loop has ended, and with it whoever listened
            self._loop.call_soon_threadsafe(self._pieces.put_nowait, piece)
