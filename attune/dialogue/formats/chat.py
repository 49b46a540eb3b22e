"""Chat messages, `[{"role": "user" | "assistant" | "system", "content": …}]`: a file of one list, or a list per line.

Each line may also be an object with the list under `messages`. The user is the speaker, the assistant the
listener; what the system says is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from attune.dialogue.formats.base import Bad, Reader, checked_text, json_lines, parse_json, stem
from attune.dialogue.lines import LONGEST_LINE, lines
from attune.dialogue.types import Dialogue, Role, Turn
from attune.errors import DataError

ROLE_OF: dict[str, Role | None] = {"user": "speaker", "assistant": "listener", "system": None}


def read_chat(path: Path, bad: Bad) -> Iterator[Dialogue]:
    """Dialogues of a chat-message file, JSON or JSONL."""
    value = _one_value(path)
    if value is None:
        yield from json_lines(path, bad, _dialogue)
        return
    try:
        yield _dialogue(value, stem(path))
    except DataError as error:
        bad(path, 1, str(error))


def _one_value(path: Path) -> Any:
    """The JSON value of a file that holds a single one over several lines; None when each line has its own."""
    text: list[str] = []
    length = 0
    for _, line in lines(path):
        if line.strip() and not text and _is_json(line):
            return None
        length += len(line)
        if length > LONGEST_LINE:
            return None
        text.append(line)
    whole = "\n".join(text)
    return parse_json(whole) if _is_json(whole) else None


def _is_json(text: str) -> bool:
    try:
        parse_json(text)
    except DataError:
        return False
    return True


def _dialogue(value: Any, id: str) -> Dialogue:
    if isinstance(value, dict):
        if "id" in value:
            id = checked_text(value["id"], "id")
        value = value.get("messages")
    if not isinstance(value, list):
        raise DataError("expected a list of messages with role and content")
    return Dialogue(id, turns_of(value))


def turns_of(messages: Sequence[Any]) -> tuple[Turn, ...]:
    """Chat messages as turns.

    >>> turns_of([{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi!"}])
    (Turn(role='speaker', text='Hi!', label=None),)
    """
    turns = []
    for i, message in enumerate(messages, 1):
        if not isinstance(message, dict) or not {"role", "content"} <= message.keys():
            raise DataError(f"message {i}: expected an object with role and content")
        role = message["role"]
        if not isinstance(role, str) or role not in ROLE_OF:
            raise DataError(f"message {i}: expected the role {', '.join(ROLE_OF)}, found {role!r}")
        speaks = ROLE_OF[role]
        if speaks is not None:
            turns.append(Turn(speaks, checked_text(message["content"], f"message {i}")))
    if not turns:
        raise DataError("no message of a user or an assistant")
    return tuple(turns)


CHAT = Reader(
    "chat",
    'chat messages, [{"role", "content"}] per file or line',
    lambda head: head.startswith(("[", "{")) and re.search(r'"content"\s*:', head) is not None,
    read_chat,
)
