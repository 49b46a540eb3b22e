"""A reply under way."""

from __future__ import annotations

from dataclasses import dataclass, field

from attune.dialogue.types import Context
from attune.generate.saying import Ask, Control, Tone
from attune.knowledge.ckece import EmotionalConcept
from attune.respond.guarding import Heard
from attune.respond.stages import UNDECIDED, Decision, Shares, top


@dataclass
class Exchange:
    """What was said, and what the stages have found so far."""

    turns: Context
    """All of them."""
    context: Context
    """Those that a system reads."""
    seed: int
    asked: str | None
    """The intent that somebody asked for."""
    seeded: bool = False
    """Somebody gave the seed: the same reply is to come again, whoever else is answered beside it."""
    heard: Heard | None = None
    answer: str | None = None
    """What the guard says itself; then nothing is generated."""
    felt: Shares = field(default_factory=dict)
    concepts: list[EmotionalConcept] = field(default_factory=list)
    decision: Decision = UNDECIDED

    def ask(self, count: int, tone: Tone) -> Ask:
        """What a speaker is asked for."""
        nodes = tuple(dict.fromkeys(concept.concept for concept in self.concepts))
        control = Control(top(self.felt), self.decision.label, self.decision.asked, nodes)
        return Ask(self.context, control, count, self.seed, tone=tone)
