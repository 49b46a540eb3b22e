"""POST /v1/chat/completions: a reply as OpenAI's client libraries expect it, whole or streamed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from attune.dialogue.types import Turn
from attune.respond.turns import cleaned
from attune.serve.batcher import Asked, Given
from attune.serve.desk import Desk
from attune.serve.messages import as_turns
from attune.serve.schemas import Answer, ChatCompletion, ChatRequest, Choice, Known, Usage
from attune.serve.serving import Here, Owner, Serving, logger
from attune.serve.store import Said
from attune.serve.streams import Stream
from attune.web.errors import problem_of, responses

router = APIRouter(prefix="/v1", tags=["chat"])
_STREAMED = {"content": {"text/event-stream": {"schema": {"type": "string"}}}, "description": "The reply."}


@router.post(
    "/chat/completions",
    response_model=ChatCompletion,
    responses={200: _STREAMED, **responses(400, 401, 404, 413, 422, 429, 502, 503)},
)
async def chat(request: Request, wanted: ChatRequest, here: Here, owner: Owner) -> Any:
    """Answer the last message of a conversation."""
    model, desk = here.desk(wanted.model)
    turns, ignored = as_turns(wanted.messages, here.settings)
    ignored += [cleaned(name)[:64] for name in (wanted.model_extra or {})][:20]
    seed = None if wanted.seed is None else wanted.seed % 2**32  # what every random generator takes
    task = _Task(request, here, desk, wanted, model, turns, ignored, owner)
    asked = Asked(turns, wanted.intent, seed)
    leave = here.door.enter()
    if wanted.stream:
        return await task.streamed(desk.stream(asked), leave)
    try:
        return await task.whole(await desk.reply(asked, request))
    finally:
        leave()


@dataclass
class _Task:
    """One request on its way to its answer."""

    request: Request
    here: Serving
    desk: Desk
    wanted: ChatRequest
    model: str
    turns: list[Turn]
    ignored: list[str]
    owner: str

    def __post_init__(self) -> None:
        self.id, self.created = f"chatcmpl-{secrets.token_hex(16)}", int(time.time())
        self.log: dict[str, Any] = self.request.state.fields
        self.log |= {"system": self.model, "turns": len(self.turns), "stream": self.wanted.stream}
        if self.here.settings.log_text:
            self.log["text"] = [turn.text for turn in self.turns]

    async def whole(self, given: Given) -> ChatCompletion:
        return ChatCompletion(
            id=self.id,
            created=self.created,
            model=self.model,
            choices=[Choice(message=Answer(content=given.reply.text))],
            usage=self._usage(given),
            attune=await self._known(given),
        )

    async def streamed(self, stream: Stream, leave: Callable[[], None]) -> Response:
        """Begin only when there is something to say, so that what goes wrong before has its own status."""
        until = time.monotonic() + self.here.settings.deadline

        def done() -> None:
            stream.close()
            leave()

        try:
            first = await self.desk.within(stream.next(), self.request)
        except BaseException:
            done()
            raise
        return _Events(self._events(first, stream, until), done)

    async def _events(self, first: str | Given, stream: Stream, until: float) -> AsyncIterator[str]:
        yield self._chunk({"role": "assistant", "content": ""})
        piece = first
        try:
            while not isinstance(piece, Given):
                yield self._chunk({"content": piece})
                piece = await asyncio.wait_for(stream.next(), until - time.monotonic())
        except TimeoutError:
            yield _event(self.desk.dropped("late").body())
            return
        except Exception as error:
            problem = problem_of(error)
            if problem.status_code >= 500:
                logger.exception("failed while streaming")
            yield _event(problem.body())
            return
        known = await self._known(piece)
        yield self._chunk({}, finish_reason="stop", attune=known.model_dump())
        if self.wanted.stream_options and self.wanted.stream_options.include_usage:
            yield _event({**self._frame(), "choices": [], "usage": self._usage(piece).model_dump()})
        yield "data: [DONE]\n\n"

    def _frame(self) -> dict[str, Any]:
        return {"id": self.id, "object": "chat.completion.chunk", "created": self.created, "model": self.model}

    def _chunk(self, delta: dict[str, str], finish_reason: str | None = None, **more: Any) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": None}
        return _event({**self._frame(), "choices": [choice], **more})

    def _usage(self, given: Given) -> Usage:
        heard = sum(len(turn.text.split()) for turn in self.turns)
        said = len(given.reply.text.split())
        return Usage(prompt_tokens=heard, completion_tokens=said, total_tokens=heard + said)

    async def _known(self, given: Given) -> Known:
        """What the agent knows about its reply; the conversation is kept on the way, where there is a store."""
        fields = given.reply.to_dict()
        text = fields.pop("text")
        fields["timings"] = {"queue": given.waited, **fields["timings"]}
        self.here.metrics.reply(fields["guard"], fields["timings"])
        self.log["queue_ms"] = given.waited
        if self.here.settings.log_text:
            self.log["reply"] = text
        conversation = await self._keep(text, fields)
        if self.wanted.conversation and not conversation:
            self.ignored.append("conversation")
        return Known(**fields, reply_id=self.id, conversation=conversation, ignored=self.ignored)

    async def _keep(self, text: str, fields: dict[str, Any]) -> str | None:
        """The conversation's id, if it is kept. A store that fails costs nobody their reply."""
        store = self.here.store
        if store is None or self.wanted.store is False:
            return None
        id = self.wanted.conversation or secrets.token_hex(16)
        said = Said(id, self.turns, text, self.id, fields, self.model, self.owner, self.wanted.user)
        try:
            return id if await run_in_threadpool(store.keep, said) else None
        except Exception:
            self.here.metrics.unkept.inc()
            logger.exception("not kept")
            return None


class _Events(StreamingResponse):
    """Server-sent events; `done` is called when they end, however they end."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncIterator[str], done: Callable[[], None]) -> None:
        super().__init__(events, headers={"X-Accel-Buffering": "no"})  # proxies pass each event on at once
        self.done = done

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self.done()


def _event(content: dict[str, Any]) -> str:
    return f"data: {json.dumps(content, ensure_ascii=False, separators=(',', ':'))}\n\n"
