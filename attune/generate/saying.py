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

__all__ = ["EVEN", "Ask", "Candidate", "Control", "Speaker", "Tone", "finished"]


class Tone(NamedTuple):
    """How replies sound, over a whole conversation."""

    name: str = ""
    """What the listener calls itself."""
    warmth: float = 0.5
    """From 0, matter-of-fact, to 1, very warm."""
    brevity: float = 0.5
    """From 0, at length, to 1, as short as can be."""

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
    whole = None if ended else re.match(r".*[.!?…][\"'”’)]*(?=\s|$)", text, re.DOTALL)
    return whole[0] if whole else text


class Speaker(Protocol):
    """What a system with the capability `say` offers."""

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        """The candidates of each ask; all asks are decoded together."""
        ...

    def stream(self, ask: Ask) -> Iterator[str]:
        """Pieces of one reply as they are said. Closing the iterator stops the decoding."""
        ...
