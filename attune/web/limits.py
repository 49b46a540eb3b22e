"""A limit on the size of what is sent in: a body is counted while it is read, whatever its headers claim."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attune.web.errors import Problem

DRAIN = 16 * 1024 * 1024


class BodyLimit:
    """ASGI middleware: a body of more than `limit` bytes is answered with 413.

    What is left of it is read and forgotten first, up to :data:`DRAIN` bytes: a client that is still sending when the
    connection closes would see a broken pipe instead of the answer.
    """

    def __init__(self, app: ASGIApp, limit: int) -> None:
        self.app, self.limit = app, limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        read = 0

        async def counted() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > self.limit:
                while message.get("more_body") and read < DRAIN:
                    message = await receive()
                    read += len(message.get("body", b""))
                raise Problem(413, f"the body is larger than {self.limit:,} bytes", code="body_too_large")
            return message

        await self.app(scope, counted if scope["type"] == "http" else receive, send)
