"""What stands before a reply, worked out from the turns before it: perceive, recall, decide. No torch here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from attune.dialogue.types import Context, Example
from attune.emotion.opinions import normalised, together
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.generate.engines.base import Engine
from attune.knowledge.ckece import EmotionalConcept
from attune.knowledge.recall import ConceptRecall
from attune.models.prompt import NOTHING_KNOWN, Control, Prompts

REMEMBERED = 1 << 14  # contexts: a conversation that goes on asks for its earlier ones each time
LATEST = 3  # turns by which, with the opening, a conversation is known again when its middle has left the window


class Perceives(Protocol):
    """A system that tells the emotion of a context and the label of the reply to give."""

    def perceive(self, contexts: Sequence[Context]) -> np.ndarray: ...
    def decide(self, contexts: Sequence[Context]) -> np.ndarray: ...


Recall = Callable[[Sequence[Context]], list[tuple[str, ...]]]  # contexts → concepts, most telling first


class Ear:
    """What a decoder itself takes contexts to feel: the emotion with which it would begin the control of its reply."""

    def __init__(self, engine: Engine, prompts: Prompts, shown: Callable[[Control], Control]) -> None:
        self.engine, self.prompts, self.shown = engine, prompts, shown

    def __call__(self, contexts: Sequence[Context], controls: ContextControls) -> np.ndarray:
        """[n, 32]. What was perceived in the earlier turns is read with them."""
        earlier = [[context[:i] for i, turn in enumerate(context) if turn.role == "listener"] for context in contexts]
        known = iter(controls.of([before for places in earlier for before in places]))
        prompts = [
            self.prompts.asking(context, [self.shown(next(known)) for _ in places])
            for context, places in zip(contexts, earlier, strict=True)
        ]
        return normalised(self.engine.after(prompts, self.prompts.feelings))


class ContextControls:
    """The controls of contexts; each context is worked out once and remembered, also when its middle has left the window.

    With an `ear`, what is felt is the weighted geometric mean of the perceiver's opinion and the ear's, which counts `share`.
    """

    def __init__(self, perceiver: Perceives, recall: Recall | None, ear: Ear | None = None, share: float = 0.0) -> None:
        self.perceiver, self.recall = perceiver, recall
        self.ear, self.share = ear if share else None, share
        self._known: OrderedDict[Context, Control] = OrderedDict()
        self._felt: OrderedDict[Context, np.ndarray] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, examples: Sequence[Example]) -> list[Control]:
        return self.of([example.context for example in examples])

    def of(self, contexts: Sequence[Context]) -> list[Control]:
        """In their order; nothing is known about a context without turns."""
        with self._lock:
            found = {context: self._known[key] for context in contexts if (key := _key(context)) in self._known}
        new = [context for context in dict.fromkeys(contexts) if context and context not in found]
        if new:
            emotions, labels = self.perceive(new).argmax(-1), self.perceiver.decide(new).argmax(-1)
            concepts = self.recall(new) if self.recall else [()] * len(new)
            for context, emotion, label, words in zip(new, emotions, labels, concepts, strict=True):
                found[context] = Control(EMOTIONS[emotion], LABELS[label], False, words)
            self.learn({context: found[context] for context in new})
        return [found[context] if context else NOTHING_KNOWN for context in contexts]

    def perceive(self, contexts: Sequence[Context]) -> np.ndarray:
        """[n, 32]: what each feels, in the order of EMOTIONS."""
        if self.ear is None:
            return self.perceiver.perceive(contexts)
        found: dict[Context, np.ndarray] = {}
        for some in _by_replies(contexts):
            with self._lock:
                found |= {context: self._felt[context] for context in some if context in self._felt}
            if new := [context for context in some if context not in found]:
                felt = together(self.perceiver.perceive(new), self.ear(new, self), self.share)
                found |= zip(new, felt, strict=True)
                with self._lock:
                    _remember(self._felt, {context: found[context] for context in new})
        return np.array([found[context] for context in contexts]).reshape(len(contexts), len(EMOTIONS))

    def learn(self, known: dict[Context, Control]) -> None:
        """Remember controls that were worked out elsewhere."""
        with self._lock:
            _remember(self._known, {_key(context): control for context, control in known.items()})


def _key(context: Context) -> Context:
    """What a context is remembered by: a conversation of which the middle is read no longer is still the same."""
    return context if len(context) <= 1 + LATEST else (context[0], *context[-LATEST:])


def _by_replies(contexts: Sequence[Context]) -> list[list[Context]]:
    """The different contexts, those with the fewest listener turns first: what is perceived there is read in the others."""
    groups: dict[int, list[Context]] = {}
    for context in dict.fromkeys(contexts):
        groups.setdefault(sum(turn.role == "listener" for turn in context), []).append(context)
    return [groups[count] for count in sorted(groups)]


def _remember(kept: OrderedDict[Context, Any], more: dict[Context, Any]) -> None:
    kept |= more
    while len(kept) > REMEMBERED:
        kept.popitem(last=False)


class Concepts:
    """What is recalled about contexts, as words."""

    def __init__(self, recall: ConceptRecall) -> None:
        self._recall = recall

    def __call__(self, contexts: Sequence[Context]) -> list[tuple[str, ...]]:
        return [as_words(concepts) for concepts in self._recall(contexts)]


def as_words(concepts: Sequence[EmotionalConcept]) -> tuple[str, ...]:
    """The concepts themselves, each once.

    >>> as_words([EmotionalConcept("fear", "IsA", "panic", 0.9, 0.6, 0.3), EmotionalConcept("fright", "IsA", "panic", 0.9, 0.6, 0.3)])
    ('panic',)
    """
    return tuple(dict.fromkeys(concept.concept for concept in concepts))
