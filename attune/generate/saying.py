"""What a reply is asked for with: the control before it, the tone, and who can say it. No torch here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from attune.dialogue.types import Context
from attune.emotion.taxonomy import emotion_id, label_id
from attune.errors import SettingsError
from attune.generate.settings import Decoding


class Control(NamedTuple):
    """What is known before a reply is said. Every part may be absent."""

    emotion: str | None = None
    """What the speaker feels, one of the 32."""
    label: str | None = None
    """The label of the reply to give, one of the 41."""
    asked: bool = False
    """Somebody asked for this label; otherwise it is a prediction, and the reply may depart from it."""
    concepts: tuple[str, ...] = ()
    """What is commonly known about the situation, most telling first."""

    def checked(self) -> Control:
        """The same, or an error that names the nearest label."""
        if self.emotion is not None:
            emotion_id(self.emotion)
        if self.label is not None:
            label_id(self.label)
        return self


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


NOTHING_KNOWN, EVEN = Control(), Tone()


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


class Speaker(Protocol):
    """What a system with the capability `say` offers."""

    def candidates(self, asks: Sequence[Ask]) -> list[list[Candidate]]:
        """The candidates of each ask; all asks are decoded together."""
        ...

    def stream(self, ask: Ask) -> Iterator[str]:
        """Pieces of one reply as they are said. Closing the iterator stops the decoding."""
        ...
