"""What stands before a reply, worked out from the turns before it: perceive, recall, decide. No torch here."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from attune.dialogue.types import Context, Example
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.knowledge.annotate import context_text
from attune.knowledge.ckece import Ckece, EmotionalConcept
from attune.models.prompt import NOTHING_KNOWN, Control

REMEMBERED = 1 << 14  # contexts: a conversation that goes on asks for its earlier ones each time


class Perceives(Protocol):
    """A system that tells the emotion of a context and the label of the reply to give."""

    def perceive(self, contexts: Sequence[Context]) -> np.ndarray: ...
    def decide(self, contexts: Sequence[Context]) -> np.ndarray: ...


Recall = Callable[[Sequence[Context]], list[tuple[str, ...]]]  # contexts → concepts, most telling first


class ContextControls:
    """The controls of contexts; each context is worked out once and remembered."""

    def __init__(self, perceiver: Perceives, recall: Recall | None) -> None:
        self.perceiver, self.recall = perceiver, recall
        self._known: OrderedDict[Context, Control] = OrderedDict()
        self._lock = threading.Lock()

    def __call__(self, examples: Sequence[Example]) -> list[Control]:
        return self.of([example.context for example in examples])

    def of(self, contexts: Sequence[Context]) -> list[Control]:
        """In their order; nothing is known about a context without turns."""
        with self._lock:
            found = {context: self._known[context] for context in contexts if context in self._known}
        new = [context for context in dict.fromkeys(contexts) if context and context not in found]
        if new:
            emotions, labels = self.perceiver.perceive(new).argmax(-1), self.perceiver.decide(new).argmax(-1)
            concepts = self.recall(new) if self.recall else [()] * len(new)
            for context, emotion, label, words in zip(new, emotions, labels, concepts, strict=True):
                found[context] = Control(EMOTIONS[emotion], LABELS[label], False, words)
            self.learn({context: found[context] for context in new})
        return [found[context] if context else NOTHING_KNOWN for context in contexts]

    def learn(self, known: dict[Context, Control]) -> None:
        """Remember controls that were worked out elsewhere."""
        with self._lock:
            self._known |= known
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)


class Concepts:
    """CKECE's concepts of contexts as words; opened when first needed."""

    def __init__(self, ckece: Ckece | None = None) -> None:
        self._ckece, self._lock = ckece, threading.Lock()

    def __call__(self, contexts: Sequence[Context]) -> list[tuple[str, ...]]:
        with self._lock:
            self._ckece = self._ckece or Ckece()
            found = self._ckece.extract([context_text(context) for context in contexts])
        return [as_words(extraction.concepts) for extraction in found]


def as_words(concepts: Sequence[EmotionalConcept]) -> tuple[str, ...]:
    """The concepts themselves, each once.

    >>> as_words([EmotionalConcept("fear", "IsA", "panic", 0.9, 0.6, 0.3), EmotionalConcept("fright", "IsA", "panic", 0.9, 0.6, 0.3)])
    ('panic',)
    """
    return tuple(dict.fromkeys(concept.concept for concept in concepts))
