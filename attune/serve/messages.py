"""Chat messages become turns: what the user says is the speaker's, what the assistant says the listener's."""

from __future__ import annotations

from collections.abc import Sequence

from attune.dialogue.types import Role, Turn
from attune.respond.turns import cleaned
from attune.serve.schemas import Message
from attune.serve.settings import ServeSettings
from attune.web.errors import Problem

ROLE_OF: dict[str, Role] = {"user": "speaker", "assistant": "listener"}


def as_turns(
    messages: Sequence[Message], settings: ServeSettings, *, ends: str = "user"
) -> tuple[list[Turn], list[str]]:
    """The turns of a conversation, and which messages are no part of it.

    Messages in a row from one side are one turn. An empty one of the assistant (a reply that was broken off) is left out; an
    empty one of the user is a mistake. The last turn must be the `ends` side's.

    >>> turns, ignored = as_turns([Message(role="system", content="Be kind."), Message(role="user", content="Hi")], ServeSettings())
    >>> turns, ignored
    ([Turn(role='speaker', text='Hi', label=None)], ['messages.0 (system)'])
    """
    if len(messages) > settings.max_messages:
        raise _wrong(f"{len(messages):,} messages; at most {settings.max_messages:,} can be read", "messages")
    turns: list[Turn] = []
    ignored = []
    for number, message in enumerate(messages):
        where = f"messages.{number}"
        if message.role not in ROLE_OF:
            ignored.append(f"{where} ({message.role})")
            continue
        text = cleaned(message.text())
        if not text:
            if message.role == "user":
                raise _wrong(f"{where} is empty: there is nothing to answer", f"{where}.content")
            ignored.append(f"{where} (empty)")
            continue
        role = ROLE_OF[message.role]
        if turns and turns[-1].role == role:
            turns[-1] = Turn(role, f"{turns[-1].text}\n{text}")
        else:
            turns.append(Turn(role, text))
        if len(turns[-1].text) > settings.max_chars:
            length = f"{where} makes a turn of {len(turns[-1].text):,} characters"
            raise _wrong(f"{length}; at most {settings.max_chars:,} can be read", f"{where}.content")
    if not turns or turns[-1].role != ROLE_OF[ends]:
        raise _wrong(f"the last message must be the {ends}'s", f"messages.{len(messages) - 1}.role")
    return turns, ignored


def _wrong(message: str, param: str) -> Problem:
    return Problem(422, message, code="invalid_messages", param=param)
