"""What is kept: feedback comes in, conversations go out, and either can be erased. Only on a server with a store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Path
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from attune.respond.turns import cleaned
from attune.serve.messages import as_turns
from attune.serve.schemas import ConversationId, Erased, FeedbackBody, FeedbackId, FeedbackRequest, Name
from attune.serve.serving import Here, Owner
from attune.serve.store import Opinion
from attune.web.errors import Problem, responses

router = APIRouter(prefix="/v1", tags=["keeping"])
Conversation = Annotated[ConversationId, Path(description="`attune.conversation` of a reply.")]
Feedback = Annotated[FeedbackId, Path(description="`id` of the answer to the feedback.")]
User = Annotated[Name, Path(description="What requests said in `user`.")]


@router.post("/feedback", response_model=FeedbackBody, responses=responses(400, 401, 404, 413, 422))
async def give_feedback(given: FeedbackRequest, here: Here, owner: Owner) -> FeedbackBody:
    """Keep what a person thinks of a reply, with their consent."""
    store = here.kept()
    turns, _ = as_turns(given.messages, here.settings, ends="assistant")
    if len(turns) < 2:
        raise Problem(422, "a reply follows what a person said", code="invalid_messages", param="messages")
    opinion = Opinion(
        turns[:-1],
        turns[-1].text,
        given.thumb,
        cleaned(given.better or "") or None,
        given.reply_id,
        given.conversation,
        given.model,
        owner,
        given.user,
    )
    return FeedbackBody(id=await run_in_threadpool(store.add_feedback, opinion))


@router.delete("/feedback/{feedback}", response_model=Erased, responses=responses(401, 404, 422))
async def erase_feedback(feedback: Feedback, here: Here, owner: Owner) -> Erased:
    """Erase what a person thought of a reply. What is not there counts as nothing, not as a mistake."""
    return Erased(**await run_in_threadpool(here.kept().erase_feedback, feedback, owner))


@router.get("/conversations/{conversation}", responses=responses(401, 404, 422))
async def export_conversation(conversation: Conversation, here: Here, owner: Owner) -> dict[str, Any]:
    """A conversation with its turns and the feedback about it."""
    found = await run_in_threadpool(here.kept().conversation, conversation, owner)
    if found is None:
        raise _unknown("conversation")
    return found


@router.delete("/conversations/{conversation}", response_model=Erased, responses=responses(401, 404, 422))
async def erase_conversation(conversation: Conversation, here: Here, owner: Owner) -> Erased:
    """Erase a conversation and the feedback about it."""
    erased = Erased(**await run_in_threadpool(lambda: here.kept().erase(conversation=conversation, owner=owner)))
    if not erased.conversations and not erased.feedback:
        raise _unknown("conversation")
    return erased


@router.get(
    "/users/{user}/conversations",
    response_class=StreamingResponse,
    responses={
        200: {"content": {"application/x-ndjson": {"schema": {"type": "string"}}}, "description": "One a line."},
        **responses(401, 403, 404, 422),
    },
)
async def export_user(user: User, here: Here, owner: Owner) -> StreamingResponse:
    """All conversations of a user, one JSON object a line. Only on a server with API keys."""
    store = here.kept()
    _needs_keys(here)

    def lines() -> Iterator[str]:
        for row in store.export(user=user, owner=owner):
            yield json.dumps(row, ensure_ascii=False) + "\n"

    return StreamingResponse(lines(), media_type="application/x-ndjson")


@router.delete("/users/{user}", response_model=Erased, responses=responses(401, 403, 404, 422))
async def erase_user(user: User, here: Here, owner: Owner) -> Erased:
    """Erase everything of a user. Only on a server with API keys."""
    store = here.kept()
    _needs_keys(here)
    return Erased(**await run_in_threadpool(lambda: store.erase(user=user, owner=owner)))


def _needs_keys(here: Here) -> None:
    """A conversation's id cannot be guessed; a user's name can."""
    if here.keys is None:
        raise Problem(403, "users can be exported and erased here only on a server with API keys", code="keys_needed")


def _unknown(what: str) -> Problem:
    return Problem(404, f"there is no such {what}", code="not_found", param=what)
