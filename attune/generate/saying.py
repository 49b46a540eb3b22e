"""What a reply is asked for with: the control before it, the tone, and who can say it. No torch here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from attune.dialogue.types import Context
from attune.errors import SettingsError
from attune.generate.settings import Decoding
from attune.models.prompt import NOTHING_KNOWN, Control

__all__ = ["EVEN", "Ask", "Candidate", "Control", "Speaker", "Tone", "finished", "long_enough", "shortened", "whole"]

_END = r"[.!?…][\"'”’)]*"  # of a sentence


class Tone(NamedTuple):
    """How replies sound, over a whole conversation."""

    name: str = ""
    """What the listener calls itself."""
    warmth: float = 0.5
    """From 0, matter-of-fact, to 1, very warm."""
    brevity: float = 0.5
    """From 0, at length, to 1, as short as can be."""

    @property
    def sentences(self) -> int | None:
        """How many a reply has at most; None: as they come."""
        return 1 if self.brevity > 0.75 else 2 if self.brevity > 0.5 else None

    def checked(self) -> Tone:
        for what in ("warmth", "brevity"):
            if not 0 <= getattr(self, what) <= 1:
                raise SettingsError(f"tone: {what} must be from 0 to 1, not {getattr(self, what)}")
        return self


EVEN = Tone()


@dataclass(frozen=True, slots=True)
class Ask:
    """One reply to be said: `count` candidates for it, sampled by `decoding` (None: the system's own)."""

    context: Context
    control: Control = NOTHING_KNOWN
    count: int = 1
    seed: int = 0
    decoding: Decoding | None = None
    tone: Tone = EVEN


class Candidate(NamedTuple):
    """A reply that could be given. `logprob` is summed over its tokens, its end included, in nats."""

    text: str
    logprob: float
    tokens: int


def finished(text: str, ended: bool) -> str:
    """A reply that did not come to its end by itself, up to its last whole sentence; as it is if it has none.

    >>> finished("Oh no! I am so sorry. Did you have him for a", ended=False)
    'Oh no! I am so sorry.'
    >>> finished("That is great", ended=True), finished("I do not know what", ended=False)
    ('That is great', 'I do not know what')
    """
    sentences = None if ended else re.match(rf".*{_END}(?=\s|$)", text, re.DOTALL)
    return sentences[0] if sentences else text


def whole(text: str) -> bool:
    """Whether a text ends where a sentence does.

    >>> whole("I am so sorry."), whole("I am so"), whole("“Really?” ")
    (True, False, True)
    """
    return re.search(rf"{_END}\s*$", text) is not None


def shortened(text: str, sentences: int | None) -> str:
    """The first so many sentences; exclamations of one or two words do not count.

    >>> shortened("Oh no! I am so sorry. How is she now? I hope she is well.", 1)
    'Oh no! I am so sorry.'
    """
    start = count = 0
    for end in re.finditer(rf"{_END}(?=\s|$)", text) if sentences else ():
        count += len(text[start : end.end()].split()) > 2
        if count == sentences:
            return text[: end.end()]
        start = end.end()
    return text


def long_enough(text: str, sentences: int | None) -> bool:
    """Whether a text has so many sentences already.

    >>> long_enough("Oh no! I am so", 1), long_enough("Oh no! I am so sorry.", 1), long_enough("I am so sorry.", None)
    (False, True, False)
    """
    return sentences is not None and whole(text) and len(shortened(f"{text} And so on.", sentences)) <= len(text)


class Speaker(Protocol):
    """What a system with the capability `say` offers."""

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        """The candidates of each ask; all asks are decoded together."""
        ...

    def stream(self, ask: Ask) -> Iterator[str]:
        """Pieces of one reply as they are said. Closing the iterator stops the decoding."""
        ...
