"""The stages before something is said: perceive, recall, decide. Each is a small object over a batch of contexts.

Any object of the same shape can take the place of one; without it (`None`) the agent goes on without what it would have found.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from attune.dialogue.types import Context
from attune.emotion.taxonomy import EMOTIONS, LABELS, polarity
from attune.knowledge.ckece import Ckece, EmotionalConcept
from attune.knowledge.graph import CLS, GraphBuilder
from attune.knowledge.recall import ConceptRecall
from attune.knowledge.unfit import fit

Shares = dict[str, float]


class Perceive(Protocol):
    """What the speaker feels in each context: emotions with their probabilities, highest first."""

    def __call__(self, contexts: Sequence[Context]) -> list[Shares]: ...


class Recall(Protocol):
    """What is commonly known about each context, most telling first."""

    def __call__(self, contexts: Sequence[Context]) -> list[list[EmotionalConcept]]: ...


class Decision(NamedTuple):
    """The label of the reply to give (None: whatever comes), the probabilities it was chosen by, and why in a sentence."""

    label: str | None = None
    shares: Shares = {}
    why: str = ""
    asked: bool = False
    """Somebody wants this label; otherwise it is a prediction, and the reply may depart from it."""


UNDECIDED = Decision()


class Decide(Protocol):
    """What reply each context calls for, given what was perceived."""

    def __call__(self, contexts: Sequence[Context], felt: Sequence[Shares]) -> list[Decision]: ...


class SystemPerceives:
    """The emotion head of a system."""

    def __init__(self, system: Any) -> None:
        self.system = system

    def __call__(self, contexts: Sequence[Context]) -> list[Shares]:
        return [ranked(EMOTIONS, row) for row in self.system.perceive(contexts)]


class RecallsConcepts(ConceptRecall):
    """What is commonly known, and the emotional context graph. Without the parts it needs, nothing is recalled."""

    def __init__(self, ckece: Ckece | None = None) -> None:
        super().__init__(ckece, lenient=True)
        self._graphs: GraphBuilder | None = None

    def graph(self, context: Context) -> dict[str, Any]:
        """The emotional context graph as plain values."""
        ckece = self.open()
        if ckece is None:
            return {"nodes": [], "edges": []}
        with self._lock:
            if self._graphs is None:
                self._graphs = GraphBuilder(ckece.index)
        return graph_values(self._graphs, context)


def graph_values(builder: GraphBuilder, context: Context) -> dict[str, Any]:
    """A graph as nodes and edges: a word leads to the one before it and to its concepts, and CLS to everything."""
    graph = builder(context)
    lexicon: Any = builder.lexicon
    nodes: list[dict[str, Any]] = [{"id": 0, "text": CLS, "kind": "cls", "intensity": 0.0}]
    for word, turn, intensity in zip(graph.words, graph.turns, graph.word_intensities):
        place = {"turn": turn, "role": context[turn].role}
        nodes.append({"id": len(nodes), "text": word, "kind": "word", "intensity": round(intensity, 4), **place})
    edges: list[dict[str, Any]] = [
        {"from": i, "to": i - 1, "relation": "before"} for i in range(2, 1 + len(graph.words))
    ]
    for concept in filter(lambda concept: fit(concept.concept), graph.concepts):
        edges += [{"from": 1 + word, "to": len(nodes), "relation": concept.relation} for word in concept.words]
        nodes.append(
            {"id": len(nodes), "text": concept.concept, "kind": "concept", "intensity": round(concept.intensity, 4)}
        )
    for node in nodes[1:]:
        node["valence"] = round(lexicon[node["text"]][0], 4) if node["text"] in lexicon else None
        edges.append({"from": 0, "to": node["id"], "relation": "cls"})
    return {"nodes": nodes, "edges": edges}


class SystemDecides:
    """The most probable label by a system's own prediction."""

    def __init__(self, system: Any) -> None:
        self.system = system

    def __call__(self, contexts: Sequence[Context], felt: Sequence[Shares]) -> list[Decision]:
        return [_decided(ranked(LABELS, row)) for row in self.system.decide(contexts)]


def _decided(shares: Shares) -> Decision:
    (best, share), (second, next_share) = list(shares.items())[:2]
    why = f"a reply that is {best} fits best here ({share:.0%}; next is {second}, {next_share:.0%})"
    return Decision(best, shares, why)


WARM = frozenset({"consoling", "encouraging", "sympathizing", "wishing"})
TILT = 4.0  # how much a tone counts: at either end the warm labels weigh e² times as much, or as little


def tilted(decision: Decision, warmth: float) -> Decision:
    """A decision by its shares, the warm labels weighed by how warm the tone is. A label that this brings is asked for.

    >>> tilted(Decision("questioning", {"questioning": 0.6, "consoling": 0.2}, "it fits best"), 1.0)[::2]
    ('consoling', 'questioning was likelier, but the tone is warm')
    """
    weight = math.exp(TILT * (warmth - 0.5))
    best = max(
        decision.shares, key=lambda name: decision.shares[name] * (weight if name in WARM else 1.0), default=None
    )
    if warmth == 0.5 or best in (None, decision.label):
        return decision
    why = f"{decision.label} was likelier, but the tone is {'warm' if warmth > 0.5 else 'matter-of-fact'}"
    return Decision(best, decision.shares, why, asked=True)


class DecidesByRule:
    """For a system that takes a label but predicts none. By the polarity of the strongest emotion:

    | the person's turn                 | unpleasant   | pleasant      |
    |-----------------------------------|--------------|---------------|
    | is their first                    | sympathizing | acknowledging |
    | comes after a question of ours    | consoling    | encouraging   |
    | any other                         | questioning  | questioning   |

    >>> from attune.dialogue.types import Turn
    >>> DecidesByRule()([(Turn("speaker", "My dog died."),)], [{"sad": 0.8}])[0].label
    'sympathizing'
    """

    def __call__(self, contexts: Sequence[Context], felt: Sequence[Shares]) -> list[Decision]:
        return [self._one(context, next(iter(shares), None)) for context, shares in zip(contexts, felt, strict=True)]

    def _one(self, context: Context, emotion: str | None) -> Decision:
        if emotion is None:
            return Decision(why="no emotion was perceived, so no intent was chosen")
        unpleasant = polarity(emotion) == "negative"
        before = [turn.text for turn in context if turn.role == "listener"]
        if not before:
            label, when = ("sympathizing" if unpleasant else "acknowledging"), "they have just begun"
        elif before[-1].rstrip().endswith("?"):
            label, when = ("consoling" if unpleasant else "encouraging"), "they have answered a question"
        else:
            label, when = "questioning", "there was no question yet"
        return Decision(label, why=f"by rule: the person is {emotion} and {when}, so {label}")


def ranked(names: Sequence[str], shares: Iterable[float]) -> Shares:
    """Names with their probabilities, highest first.

    >>> ranked(["a", "b"], [0.25, 0.75])
    {'b': 0.75, 'a': 0.25}
    """
    pairs = zip(names, (round(float(share), 6) for share in shares), strict=True)
    return dict(sorted(pairs, key=lambda pair: -pair[1]))


def concept_values(concepts: Sequence[EmotionalConcept]) -> list[dict[str, Any]]:
    """Concepts as plain values."""
    return [
        {
            "head": concept.keyword,
            "relation": concept.relation,
            "tail": concept.concept,
            "score": round(concept.score, 4),
            "intensity": round(concept.intensity, 4),
            "similarity": round(concept.similarity, 4),
            "confidence": round(concept.confidence, 4),
        }
        for concept in concepts
    ]


def top(shares: Mapping[str, float]) -> str | None:
    """The first of ranked shares."""
    return next(iter(shares), None)
