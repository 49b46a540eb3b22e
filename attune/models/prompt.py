"""The text that a causal decoder reads: the dialogue, and before each listener turn a short control. No torch here.

The form is the decoder's own chat format; a control stands in the header of a listener turn:

    <|im_start|>user⏎My dog died.<|im_end|>⏎<|im_start|>assistant sad ~ sympathizing: grief, loss⏎I'm so sorry.<|im_end|>⏎

Emotion, label and concepts may each be absent. `~` marks a label that was predicted, `=` one that was asked for. A control is
computed from the turns before it alone, so a conversation that goes on keeps what was already read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from tokenizers import Tokenizer

from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS, emotion_id, label_id
from attune.errors import DataError, SettingsError

NAMES = {"speaker": "user", "listener": "assistant"}
BEGIN, END = "<|im_start|>", "<|im_end|>"
PREDICTED, ASKED = " ~", " ="


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

    def shown(self, emotion: bool, label: bool, concepts: int) -> Control:
        """What a system lets through: a label that was asked for always."""
        return Control(
            self.emotion if emotion else None,
            self.label if label or self.asked else None,
            self.asked,
            self.concepts[:concepts],
        )

    def checked(self) -> Control:
        """The same, or an error that names the nearest label."""
        if self.emotion is not None:
            emotion_id(self.emotion)
        if self.label is not None:
            label_id(self.label)
        return self


NOTHING_KNOWN = Control()


class Prompts:
    """Dialogues ↔ ids of one decoder. Text is never read as a special token, whatever people write."""

    def __init__(self, tokenizer: Tokenizer, control_tokens: int = 24, longest: int = 1024) -> None:
        begin, end = tokenizer.token_to_id(BEGIN), tokenizer.token_to_id(END)
        if begin is None or end is None:
            raise SettingsError(
                f"the decoder's tokenizer has no {BEGIN} and {END}; it is not of the chat form needed here"
            )
        tokenizer.encode_special_tokens = True
        self.tokenizer, self.eos, self.control_tokens, self.longest = tokenizer, end, control_tokens, longest
        self.ids = lru_cache(maxsize=200_000)(self._ids)
        self._begin = {role: (begin, *self._ids(name)) for role, name in NAMES.items()}
        self._line, self._end = self._ids("\n"), (end, *self._ids("\n"))
        self.feelings = tuple(self._ids(f" {emotion}")[0] for emotion in EMOTIONS)
        """The token that a control begins with, by emotion."""

    def _ids(self, text: str) -> tuple[int, ...]:
        return tuple(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def control(self, control: Control) -> tuple[int, ...]:
        """A control's ids; concepts that would make it longer than `control_tokens` are left out."""
        found: tuple[int, ...] = ()
        if control.emotion:
            found += self.ids(f" {control.emotion}")
        if control.label:
            found += self.ids(ASKED if control.asked else PREDICTED) + self.ids(f" {control.label}")
        before = ":"
        for concept in control.concepts:
            more = self.ids(before) + self.ids(f" {concept}")
            if len(found) + len(more) > self.control_tokens:
                break
            found, before = found + more, ","
        return found

    @property
    def heard(self) -> int:
        """Where in a listener turn its control is about to begin: the number of tokens before it."""
        return len(self._begin["listener"])

    def opening(self, control: Control) -> tuple[int, ...]:
        """What stands directly before a reply."""
        return self._begin["listener"] + self.control(control) + self._line

    def turn(self, role: str, text: str, control: Control = NOTHING_KNOWN) -> tuple[int, ...]:
        """A whole turn with its ends."""
        head = self.opening(control) if role == "listener" else self._begin[role] + self._line
        return head + self.ids(text) + self._end

    def prompt(self, context: Context, controls: Sequence[Control]) -> list[int]:
        """Everything before the reply. `controls` are those of the context's listener turns, in order, and of the reply.

        Of a conversation that is too long the opening turn stays, then the latest turns that fit.
        """
        opening = self.opening(controls[-1]) if controls else ()
        return [*self._turns(context, controls[:-1], len(controls), self.longest - len(opening)), *opening]

    def asking(self, context: Context, controls: Sequence[Control]) -> list[int]:
        """Everything before the reply's own control, where a decoder may tell what is felt. `controls` are the earlier ones."""
        begin = self._begin["listener"]
        return [*self._turns(context, controls, len(controls) + 1, self.longest - len(begin)), *begin]

    def _turns(self, context: Context, controls: Sequence[Control], given: int, room: int) -> Iterator[int]:
        """The turns that fit, with the controls of the listener's."""
        listeners = sum(turn.role == "listener" for turn in context)
        if given != listeners + 1:
            raise DataError(f"{listeners} listener turns and the reply need {listeners + 1} controls, not {given}")
        waiting = iter(controls)
        turns = [
            self.turn(turn.role, turn.text, next(waiting) if turn.role == "listener" else NOTHING_KNOWN)
            for turn in context
        ]
        return chain.from_iterable(self.window(turns, room))

    def window(self, turns: Sequence[tuple[int, ...]], room: int) -> list[tuple[int, ...]]:
        """The turns that fit: the first, and the latest; a single one that is too long loses its beginning."""
        if sum(map(len, turns)) <= room:
            return list(turns)
        room -= len(turns[0])
        kept: list[tuple[int, ...]] = []
        for turn in reversed(turns[1:]):
            if len(turn) > room:
                break
            kept.insert(0, turn)
            room -= len(turn)
        if kept:
            return [turns[0], *kept]
        last = turns[-1]  # nothing fits beside the opening: the latest turn counts
        room += len(turns[0])
        head = len(self._begin["speaker"]) + len(self._line)
        return [last if len(last) <= room else last[:head] + last[head + len(last) - room :]]

    def text(self, ids: Sequence[int]) -> str:
        """A reply as a person sees it."""
        return " ".join(self.tokenizer.decode(list(ids), skip_special_tokens=True).split())
