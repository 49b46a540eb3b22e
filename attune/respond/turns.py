"""What a person sends becomes a context: checked, cleaned, and short enough to be read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from attune.dialogue.types import ROLES, Context, Role, Turn
from attune.errors import DataError, did_you_mean

LONGEST = 10_000  # characters of one turn
WINDOW = 2_000  # bytes of a context that a system reads: about 500 tokens of English
BESIDE = 60  # bytes that a turn counts for beside its text: who speaks, and what a system notes before its own turns
STEP = 8  # turns leave the window together, so that its beginning, which an engine remembers, seldom changes

# Control characters but tab and newline, embedded directions, halves of a character, and what is no character at all.
_UNSPEAKABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]+")
_MARK = re.compile(r"<\|([^|<>]{0,40})\|>")  # how chat templates mark who speaks; a person's words are never a mark


def cleaned(text: str) -> str:
    """A text that can be read and shown: no control characters, no marks of a chat template, no blanks around it.

    >>> cleaned(" I got\\x00 the job!\\r\\n<|im_start|>system")
    'I got the job!\\nim_start system'
    """
    text = _MARK.sub(r"\1 ", text.replace("\r\n", "\n").replace("\r", "\n"))
    return readable(text).strip()


def readable(text: str) -> str:
    """A piece of a text without control characters; blanks stay."""
    return _UNSPEAKABLE.sub("", text)


def as_context(turns: str | Turn | Sequence[str | Turn]) -> Context:
    """Turns from texts: the last one is the person's, and they alternate backwards from it. One text is one turn.

    >>> [turn.role for turn in as_context(["Hi.", "Hello!", "I am sad."])]
    ['speaker', 'listener', 'speaker']
    """
    given: Sequence[Any] = [turns] if isinstance(turns, str | Turn) else turns
    if not given:
        raise DataError("there is nothing to answer: give at least one turn")
    context = tuple(_turn(turn, number, ROLES[(len(given) - number) % 2]) for number, turn in enumerate(given, 1))
    if context[-1].role != "speaker":
        raise DataError("there is nothing to answer: the last turn is the listener's, and must be the speaker's")
    return context


def _turn(given: Any, number: int, role: Role) -> Turn:
    text = given
    if isinstance(given, Turn):
        role, text = given.role, given.text
    if not isinstance(text, str):
        raise DataError(f"turn {number} is of type {type(text).__name__}; expected a text")
    if role not in ROLES:
        raise DataError(f"turn {number}: {did_you_mean(str(role), ROLES, 'role')}")
    if len(text) > LONGEST:
        raise DataError(f"turn {number} has {len(text):,} characters; at most {LONGEST:,} can be read")
    if not (clean := cleaned(text)):
        why = "has nothing that can be read, only control characters" if text.strip() else "is empty"
        raise DataError(f"turn {number} {why}")
    return Turn(role, clean)


def windowed(context: Context, most: int = WINDOW, step: int = STEP) -> Context:
    """A context of at most `most` bytes: the speaker's first turn, which tells the situation, and the latest turns that fit.

    Turns after the first leave in groups of `step`. A turn that is too long by itself loses its middle: of the last one
    half of the window is kept, of any other a quarter.

    >>> talk = [Turn(ROLES[i % 2], f"turn number {i}") for i in range(101)]
    >>> [turn.text for turn in windowed(tuple(talk), most=600)]
    ['turn number 0', 'turn number 97', 'turn number 98', 'turn number 99', 'turn number 100']
    """
    last = len(context) - 1
    turns = [_shortened(turn, most // (2 if i == last else 4) - BESIDE) for i, turn in enumerate(context)]
    sizes = [_size(turn.text) + BESIDE for turn in turns]
    if sum(sizes) <= most:
        return tuple(turns)
    opening = next(i for i, turn in enumerate(turns) if turn.role == "speaker")
    room, start = most - sizes[opening] - sizes[last], last
    while start - 1 > opening and room >= sizes[start - 1]:
        start -= 1
        room -= sizes[start]
    groups = -(-(start - opening - 1) // step)
    start = min(opening + 1 + groups * step, last)
    return (turns[opening], *turns[start:]) if start > opening else tuple(turns[opening:])


def _shortened(turn: Turn, most: int) -> Turn:
    size = _size(turn.text)
    if size <= most:
        return turn
    half = max(1, len(turn.text) * most // size // 2 - 2)
    front, back = turn.text[:half], turn.text[-half:]
    front, back = front.rsplit(None, 1)[0], back.split(None, 1)[-1]  # whole words, where there are blanks
    return Turn(turn.role, f"{front} … {back}")


def _size(text: str) -> int:
    return len(text.encode("utf-8", "replace"))
