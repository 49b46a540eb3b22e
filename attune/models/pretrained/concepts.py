"""CKECE's concepts as the text that a decoder reads: `fear <is a> panic; cough <related to> sneeze; …` (seed 000, Fig. 2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence

from attune.dialogue.types import Example
from attune.knowledge.annotate import Annotations, context_text
from attune.knowledge.ckece import Ckece, EmotionalConcept, Extraction

_REMEMBERED = 1 << 15  # contexts whose text is kept: a system is often asked for several things about each
_TOGETHER = 64  # contexts whose keywords are looked for together


class ConceptText:
    """Texts of contexts. Of a corpus that was annotated beforehand they are looked up, others are worked out."""

    def __init__(self, extract: Callable[[Sequence[str]], list[Extraction]] | None = None) -> None:
        self._extract = extract
        self._known: OrderedDict[str, str] = OrderedDict()
        self.annotations: Annotations | None = None

    def __call__(self, examples: Sequence[Example]) -> list[str]:
        found: dict[int, str] = {}
        new: dict[str, list[int]] = {}
        for place, example in enumerate(examples):
            if self.annotations is not None and example.id in self.annotations:
                found[place] = as_text(self.annotations.of(example).concepts)
            elif (context := context_text(example.context)) in self._known:
                found[place] = self._known[context]
            else:
                new.setdefault(context, []).append(place)
        contexts = list(new)
        for start in range(0, len(contexts), _TOGETHER):
            part = contexts[start : start + _TOGETHER]
            for context, extraction in zip(part, self._ask(part), strict=True):
                self._known[context] = text = as_text(extraction.concepts)
                found |= dict.fromkeys(new[context], text)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return [found[place] for place in range(len(examples))]

    def _ask(self, contexts: Sequence[str]) -> list[Extraction]:
        if self._extract is None:  # opened when it is first needed
            self._extract = Ckece().extract
        return self._extract(contexts)


def as_text(concepts: Sequence[EmotionalConcept]) -> str:
    """Concepts, best first, as one text.

    >>> as_text([EmotionalConcept("fear", "IsA", "panic", 0.9, 0.6, 0.3), EmotionalConcept("dog", "IsA", "pet", 0.4, 0.8, 0.5)])
    'fear <is a> panic; dog <is a> pet'
    """
    return "; ".join(map(str, concepts))
