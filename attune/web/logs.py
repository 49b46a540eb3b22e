"""Structured logs: one JSON object a line, without anything that people wrote.

A request is logged by its route, not by its path; an exception by its kind and place, not by its message, because either may
carry somebody's words. `text=True` (for `--log-text`) lifts that.
"""

from __future__ import annotations

import json
import logging
import time
import traceback
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from typing import IO, Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attune.web.errors import logger, problem_of

Observe = Callable[[str, str, int, float], None]
"""Told of each request when it ends: route, method, status, seconds."""


class JsonFormatter(logging.Formatter):
    """A record as one line of JSON; `extra={"fields": {…}}` are further members."""

    def __init__(self, *, text: bool = False) -> None:
        super().__init__()
        self.text = text

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            line |= described(record.exc_info[1], text=self.text)
        return json.dumps(line, ensure_ascii=False, default=str)


def described(error: BaseException, *, text: bool) -> dict[str, Any]:
    """An exception for the log: its kind and where it was raised; its message only with `text`."""
    frames = traceback.extract_tb(error.__traceback__)
    shown: dict[str, Any] = {
        "error": type(error).__name__,
        "traceback": [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames],
    }
    return shown | ({"message": str(error)} if text else {})


def log_to(stream: IO[str], *, text: bool = False) -> None:
    """Write the logs of Attune and of its HTTP server to a stream, as JSON."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter(text=text))
    for name in ("attune", "uvicorn"):
        log = logging.getLogger(name)
        log.handlers, log.propagate = [handler], False
        log.setLevel(logging.INFO if name == "attune" else logging.WARNING)


class RequestLog:
    """ASGI middleware: a line per request, an id for it, and an answer when something of ours breaks."""

    def __init__(self, app: ASGIApp, observe: Observe | None = None) -> None:
        self.app, self.observe = app, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request_id, started, status = uuid.uuid4().hex, time.perf_counter(), 0

        async def with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        fields: dict[str, Any] = {}
        scope.setdefault("state", {})["fields"] = fields  # a route adds what it knows
        try:
            await self.app(scope, receive, with_id)
        except Exception as error:
            logger.exception("failed", extra={"fields": {"id": request_id, "route": _route(scope)}})
            if status:  # half an answer is out; only a closed connection can say that it is not whole
                raise
            await problem_of(error).response()(scope, receive, with_id)
        finally:
            seconds = time.perf_counter() - started
            status = status or 499  # nobody was there any more to be answered
            shown = {"id": request_id, "method": scope["method"], "route": _route(scope), "status": status}
            logger.info("request", extra={"fields": {**shown, "ms": round(seconds * 1000, 1), **fields}})
            if self.observe:
                self.observe(_route(scope), scope["method"], status, seconds)


def _route(scope: Scope) -> str:
    """The template of the matched route, e.g. /v1/conversations/{conversation}; never the path itself."""
    return getattr(scope.get("route"), "path", None) or "unmatched"
