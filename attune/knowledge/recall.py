"""What is commonly known about a conversation, as a listener may bring it up."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from attune.dialogue.types import Context
from attune.errors import MissingError
from attune.knowledge.annotate import context_text
from attune.knowledge.ckece import Ckece, EmotionalConcept
from attune.knowledge.unfit import fit


class ConceptRecall:
    """CKECE over the turns of contexts, without what a listener does not bring up. It is opened when it is first needed.

    With `lenient`, if a part that it needs is not here and cannot be fetched, nothing is recalled, and `trouble` says why;
    otherwise that is an error.
    """

    def __init__(self, ckece: Ckece | None = None, *, lenient: bool = False) -> None:
        self._ckece, self._lenient = ckece, lenient
        self._lock = threading.Lock()
        self.trouble = ""

    def __call__(self, contexts: Sequence[Context]) -> list[list[EmotionalConcept]]:
        ckece = self.open()
        if ckece is None:
            return [[] for _ in contexts]
        found = ckece.extract([context_text(context) for context in contexts])
        return [[concept for concept in extraction.concepts if fit(concept.concept)] for extraction in found]

    def open(self) -> Ckece | None:
        """What is asked, ready to answer; None if it cannot be had."""
        with self._lock:
            if self._ckece is None and not self.trouble:
                try:
                    ckece = Ckece()
                    ckece.extract(["A friend."])  # the encoder is opened by the first text
                    self._ckece = ckece
                except MissingError as error:
                    if not self._lenient:
                        raise
                    self.trouble = f"nothing is recalled: {error}"
            return self._ckece
