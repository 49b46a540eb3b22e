"""How dialogues become examples. Each protocol has a name and a version, and both are part of every score."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from attune.dialogue.types import Dialogue, Example, Turn
from attune.registry import Registry


@dataclass(frozen=True, slots=True)
class Protocol:
    """A rule that turns one dialogue into examples; a change of the rule is a new version."""

    name: str
    version: int
    function: Callable[[Dialogue], Iterator[Example]]

    def __str__(self) -> str:
        return f"{self.name}-v{self.version}"


PROTOCOLS: Registry[Protocol] = Registry("protocol")


def examples(dialogues: Iterable[Dialogue], protocol: str = "listener-turns") -> Iterator[Example]:
    """The examples that a protocol makes of dialogues, in their order.

    >>> from attune.dialogue.types import Turn
    >>> d = Dialogue("d1", (Turn("speaker", "I won!"), Turn("listener", "Great!"), Turn("speaker", "Thanks.")))
    >>> [e.id for e in examples([d])], [e.id for e in examples([d], "all-turns")]
    (['d1:2'], ['d1:2', 'd1:3'])
    """
    rule = PROTOCOLS[protocol].function
    for dialogue in dialogues:
        yield from rule(dialogue)


def listener_turns(dialogue: Dialogue) -> Iterator[Example]:
    """One example per listener turn, all earlier turns as context. A turn that opens a dialogue answers nothing.

    Where the speaker goes on, that is the feedback.
    """
    for i, turn in enumerate(dialogue.turns):
        if i and turn.role == "listener":
            answered = [later.role for later in dialogue.turns[i + 1 : i + 2]] == ["speaker"]
            yield _example(dialogue, i, with_feedback=answered)


def feedback(dialogue: Dialogue) -> Iterator[Example]:
    """One example per listener turn that a speaker turn (the feedback) and then another listener turn follow."""
    turns = dialogue.turns
    for i in range(1, len(turns) - 2):
        if [turn.role for turn in turns[i : i + 3]] == ["listener", "speaker", "listener"]:
            yield _example(dialogue, i, with_feedback=True)


def all_turns(dialogue: Dialogue) -> Iterator[Example]:
    """Every turn but the first is a response, whoever says it."""
    for i in range(1, len(dialogue.turns)):
        yield _example(dialogue, i)


def labelled_turns(dialogue: Dialogue) -> Iterator[Example]:
    """One example per turn that has a label, which is its response: the turn to be labelled.

    Its context are the turns up to this one, without labels. Only systems that label are scored on it.
    """
    for i, turn in enumerate(dialogue.turns):
        if turn.label is not None:
            told = tuple(replace(earlier, label=None) for earlier in dialogue.turns[: i + 1])
            yield replace(_example(dialogue, i), context=told)


def contexts_and_situations(dialogue: Dialogue) -> Iterator[Example]:
    """Listener turns, and the situation as if the speaker had said it: what a perceiver of emotions can learn from.

    The situation's example has an empty response, so no system can be scored on it.
    """
    if dialogue.situation:
        told = (Turn("speaker", dialogue.situation),)
        yield Example(f"{dialogue.id}:0", told, Turn("listener", ""), dialogue.emotion, dialogue.situation)
    yield from listener_turns(dialogue)


def _example(dialogue: Dialogue, i: int, with_feedback: bool = False) -> Example:
    return Example(
        id=f"{dialogue.id}:{i + 1}",
        context=dialogue.turns[:i],
        response=dialogue.turns[i],
        emotion=dialogue.emotion,
        situation=dialogue.situation,
        feedback=dialogue.turns[i + 1] if with_feedback else None,
    )


for _rule in (listener_turns, feedback, all_turns, labelled_turns, contexts_and_situations):
    _name = _rule.__name__.replace("_", "-")
    PROTOCOLS.register(_name)(Protocol(_name, 1, _rule))
