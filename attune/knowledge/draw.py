"""The emotional context graph as a drawing: each turn is a piece of ground, its words stand on it in reading order, concepts grow
from the words they belong to, and CLS shines on all of them.

Where things stand depends on the graph and the width alone. What colour and size say is also said in words, in the title of every
vertex (shown when one points at it, and read aloud).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from attune.dialogue.types import Turn
from attune.knowledge.ckece import spoken
from attune.knowledge.explain import Explanation, feeling
from attune.knowledge.graph import GraphConcept
from attune.knowledge.page import Node, node
from attune.knowledge.stopwords import STOP_WORDS

MOST_WORDS = 160  # a longer text is drawn in part; a person would not read it
_MARGIN = 26.0
_SKY = 66.0  # above the first turn
_APART = 20.0  # the most by which words of a short row are moved apart
_GROUND = 40.0  # from the ground to the end of its band: dots and their words
_LEVEL = 37.0  # from one concept to the one above it
_FIRST = 40.0  # from the ground to the lowest concept
_SIZE, _BOLD, _SMALL = 13.0, 14.0, 10.0  # of letters; bold ones are wider
_WIDEST = 140.0  # room for a label


@dataclass
class _Plant:
    """A word on the ground, and the concepts that grow from it: (number, side, level)."""

    place: int  # in the graph's words
    label: str
    x: float = 0.0
    y: float = 0.0
    concepts: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def half(self) -> float:
        """Half the room its label needs."""
        return max(text_width(self.label, _BOLD) / 2, 7.0)


@dataclass
class _Row:
    """Words that stand beside each other; the first row of a turn carries its name."""

    turn: int
    first: bool
    plants: list[_Plant]
    last: bool = True  # of its turn
    top: float = 0.0
    ground: float = 0.0


@dataclass(frozen=True)
class _Spot:
    x: float
    y: float
    r: float


def draw_graph(said: Explanation, width: int = 920, name: str = "graph") -> Node:
    """The graph of an explanation as SVG, `width` units wide; `name` keeps the ids of two drawings on a page apart."""
    garden = _Garden(said, float(width))
    height = garden.rows[-1].ground + _GROUND + 2 if garden.rows else _SKY
    graph = said.graph
    about = (
        f"{len(graph.words)} words in reading order, {len(graph.concepts)} concepts, and CLS, "
        f"which is joined to all of them."
    )
    if garden.hidden:
        about += f" {garden.hidden} words are not drawn."
    box = {"viewBox": "0 0 6 6", "refX": 5, "refY": 3, "markerWidth": 5, "markerHeight": 5, "orient": "auto"}
    arrow = node("marker", {"id": f"{name}-tip", "class": "tip", **box}, node("path", {"d": "M0 0.6 6 3 0 5.4z"}))
    return node(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {width} {height:.0f}",
            "class": "graph",
            "role": "img",
            "aria-labelledby": f"{name}-title {name}-about",
        },
        node("title", {"id": f"{name}-title"}, "Emotional context graph"),
        node("desc", {"id": f"{name}-about"}, about),
        node("defs", None, arrow),
        *garden.bands(),
        node("g", {"class": "rays", "style": f"--ray:{garden.ray:.3f}"}, *garden.rays()),
        node("g", {"class": "steps"}, *garden.steps(f"url(#{name}-tip)")),
        node("g", {"class": "stems"}, *garden.stems()),
        *garden.vertices(),
    )


class _Garden:
    """Where everything stands."""

    def __init__(self, said: Explanation, width: float) -> None:
        self.said, self.width = said, width
        self.room = min(_WIDEST, width / 2 - _MARGIN - _lean(1, 0) - 18)  # a word with concepts on both sides fits
        words = said.graph.words
        grown: dict[int, list[int]] = {}  # word → the concepts that grow from it
        for number, concept in enumerate(said.graph.concepts):
            grown.setdefault(concept.words[0], []).append(number)
        shown = set(range(len(words)))
        if len(words) > MOST_WORDS:  # the words with concepts, and the last ones
            rest = [place for place in range(len(words)) if place not in grown]
            shown = set(grown) | set(rest[len(grown) - MOST_WORDS :])
        self.hidden = len(words) - len(shown)
        plants = [_Plant(place, fitted(words[place], _BOLD, self.room)) for place in sorted(shown)]
        for plant in plants:
            for i, number in enumerate(grown.get(plant.place, ())):
                alone = i % 2 == 0 and i + 1 == len(
                    grown[plant.place]
                )  # the last of an odd number stands in the middle
                plant.concepts.append((number, 0 if alone else 1 - 2 * (i % 2), i // 2))
        self.rows = list(self._flow(plants))
        self._stand()
        self.sun = _Spot(width / 2, 32.0, 15.0)
        etas = said.graph.word_intensities
        self.plants = {plant.place: plant for row in self.rows for plant in row.plants}
        self.words = {p.place: _Spot(p.x, p.y, 2.2 + 6.5 * etas[p.place]) for p in self.plants.values()}
        self.concepts = {
            number: self._flower(plant, number, side, level)
            for plant in self.plants.values()
            for number, side, level in plant.concepts
        }

    # ---------------------------------------------------------------------------------- who stands where

    def _flow(self, plants: Sequence[_Plant]) -> Iterator[_Row]:
        """Words into rows, as wide as the drawing allows; a turn begins a new row."""
        row: _Row | None = None
        x = taken = 0.0  # where the ground is free from, and the air above it
        for plant in plants:
            turn = self.said.graph.turns[plant.place]
            left, right = self._reach(plant)
            at = max(x + plant.half + 9, taken + left if plant.concepts else 0.0, _MARGIN + left)
            if row is None or row.turn != turn or at + right > self.width - _MARGIN:
                first = row is None or row.turn != turn
                if row is not None:
                    row.last = first
                    yield row
                row = _Row(turn, first, [])
                at = max(_MARGIN + left, _MARGIN + 9 + plant.half)
                taken = 0.0
            plant.x = at
            row.plants.append(plant)
            x = at + plant.half
            if plant.concepts:
                taken = at + right + 12
        if row is not None:
            yield row

    def _reach(self, plant: _Plant) -> tuple[float, float]:
        """How far a word and its concepts reach to the left and to the right."""
        reach = {-1: plant.half, 1: plant.half}
        for number, side, level in plant.concepts:
            concept = self.said.graph.concepts[number]
            label = max(text_width(text, size) for text, size in self._labels(concept))
            reach[side or 1] = max(reach[side or 1], _lean(side, level) + _radius(concept) + 5 + label)
        return reach[-1], reach[1]

    def _labels(self, concept: GraphConcept) -> tuple[tuple[str, float], tuple[str, float]]:
        """What stands beside a concept: its text and its relation, each with the size of its letters."""
        texts = ((concept.concept, _SIZE), (spoken(concept.relation), _SMALL))
        one, other = ((fitted(text, size, self.room), size) for text, size in texts)
        return one, other

    def _stand(self) -> None:
        """Spread each row's words over the width, and give it its height: as high as its concepts grow."""
        y = _SKY
        for row in self.rows:
            levels = max((1 + level for plant in row.plants for *_, level in plant.concepts), default=0)
            row.top = y
            row.ground = y + (22 if row.first else 8) + (_FIRST + _LEVEL * (levels - 1) + 18 if levels else 10)
            y = row.ground + _GROUND + (10 if row.last else 0)
            slack = self.width - _MARGIN - max(plant.x + self._reach(plant)[1] for plant in row.plants)
            apart = min(slack / max(len(row.plants) - 1, 1), _APART)
            start = (slack - apart * (len(row.plants) - 1)) / 2
            for i, plant in enumerate(row.plants):
                plant.x += start + i * apart
                plant.y = row.ground

    def _flower(self, plant: _Plant, number: int, side: int, level: int) -> _Spot:
        r = _radius(self.said.graph.concepts[number])
        return _Spot(plant.x + side * _lean(side, level), plant.y - _FIRST - _LEVEL * level, r)

    # ----------------------------------------------------------------------------------- what is drawn

    @property
    def ray(self) -> float:
        """How bright a ray is: the more there are the less, so that words stay readable."""
        return 0.18 * min(1.0, (40 / max(len(self.words) + len(self.concepts), 1)) ** 0.5)

    def bands(self) -> Iterator[Node]:
        """A piece of ground for every turn, with its name."""
        start = 0.0
        for row in self.rows:
            start = row.top if row.first else start
            if row.last:
                turn: Turn = self.said.turns[row.turn]
                height = row.ground + _GROUND - start - 6
                yield node(
                    "g",
                    {"class": f"band {turn.role}"},
                    node("rect", {"x": 8, "y": start, "width": self.width - 16, "height": height, "rx": 14}),
                    node("text", {"x": 24, "y": start + 19, "class": "name"}, f"{turn.role} · turn {row.turn + 1}"),
                )

    def rays(self) -> Iterator[Node]:
        """CLS ↔ every vertex."""
        for spot in (*self.words.values(), *self.concepts.values()):
            yield node("path", {"d": f"M{self.sun.x:.1f} {self.sun.y:.1f} {spot.x:.1f} {spot.y:.1f}"})

    def steps(self, tip: str) -> Iterator[Node]:
        """Word → the word before it; over the end of a row the arrow runs off the margin and comes in again."""
        for row in self.rows:
            for i, plant in enumerate(row.plants):
                spot = self.words[plant.place]
                if plant.place == 0:
                    continue
                if i:
                    before = self.words[row.plants[i - 1].place]
                    gap = plant.place - row.plants[i - 1].place > 1  # words between them are not drawn
                    yield node(
                        "path",
                        {
                            "d": f"M{spot.x - spot.r - 2:.1f} {spot.y:.1f}H{before.x + before.r + 3:.1f}",
                            "marker-end": tip,
                            "class": "gap" if gap else "step",
                        },
                    )
                else:
                    yield node(
                        "path",
                        {
                            "d": f"M{spot.x - spot.r - 2:.1f} {spot.y:.1f}H{max(spot.x - 46, 13):.1f}",
                            "marker-end": tip,
                            "class": "gap",
                        },
                    )

    def stems(self) -> Iterator[Node]:
        """Word → its concepts."""
        for number, flower in self.concepts.items():
            concept = self.said.graph.concepts[number]
            for place in concept.words:
                if place not in self.words:
                    continue
                word = self.words[place]
                bend = (word.y + flower.y) / 2
                own = place == concept.words[0]
                yield node(
                    "path",
                    {
                        "d": f"M{word.x:.1f} {word.y - word.r:.1f}C{word.x:.1f} {bend:.1f} {flower.x:.1f} "
                        f"{bend:.1f} {flower.x:.1f} {flower.y + flower.r:.1f}",
                        "class": "stem" if own else "stem far",
                    },
                )

    def vertices(self) -> Iterator[Node]:
        """CLS, the words and the concepts, each with a title that says everything."""
        graph, valences = self.said.graph, self.said.valences
        yield node(
            "g",
            {"class": "cls"},
            node("title", None, "CLS: joined to every vertex"),
            node("circle", {"cx": self.sun.x, "cy": self.sun.y, "r": 1.7 * self.sun.r, "class": "halo"}),
            node("circle", {"cx": self.sun.x, "cy": self.sun.y, "r": self.sun.r}),
            node("text", {"x": self.sun.x, "y": self.sun.y + 3.6}, "CLS"),
        )
        for place, spot in self.words.items():
            word, eta, valence = graph.words[place], graph.word_intensities[place], valences[1 + place]
            plain = word in STOP_WORDS or not word[0].isalnum()
            yield node(
                "g",
                {"class": f"word {feeling(valence)}{' plain' if plain else ''}", "style": f"--i:{eta:.2f}"},
                node("title", None, f"{word}: word, intensity {eta:.2f}, {feeling(valence)}"),
                node("circle", {"cx": spot.x, "cy": spot.y, "r": spot.r}),
                node("text", {"x": spot.x, "y": spot.y + 24}, self.plants[place].label),
            )
        for number, spot in self.concepts.items():
            yield self._concept(graph.concepts[number], spot, valences[1 + len(graph.words) + number])

    def _concept(self, concept: GraphConcept, spot: _Spot, valence: float | None) -> Node:
        word = self.said.graph.words[concept.words[0]]
        side = -1 if spot.x < self.words[concept.words[0]].x else 1
        x = spot.x + side * (spot.r + 5)
        (label, _), (small, _) = self._labels(concept)
        return node(
            "g",
            {
                "class": f"concept {feeling(valence)} {'right' if side > 0 else 'left'}",
                "style": f"--i:{concept.intensity:.2f}",
            },
            node(
                "title",
                None,
                f"{word} <{spoken(concept.relation)}> {concept.concept}: concept, intensity {concept.intensity:.2f}, "
                f"{feeling(valence)}, confidence {concept.confidence:.2f}",
            ),
            node("circle", {"cx": spot.x, "cy": spot.y, "r": spot.r + 4, "class": "halo"}),
            node("circle", {"cx": spot.x, "cy": spot.y, "r": spot.r}),
            node("text", {"x": x, "y": spot.y + 1}, label),
            node("text", {"x": x, "y": spot.y + 12.5, "class": "relation"}, small),
        )


def _radius(concept: GraphConcept) -> float:
    return 4.0 + 8.0 * concept.intensity


def _lean(side: int, level: int) -> float:
    """How far a concept leans away from its word: the higher the less, and not at all in the middle."""
    return max(32.0 - 9.0 * level, 14.0) if side else 0.0


def fitted(text: str, size: float, room: float) -> str:
    """A label cut to the room there is for it.

    >>> fitted("misunderstanding", 13, 140), fitted("misunderstanding", 13, 80)
    ('misunderstanding', 'misunder…')
    """
    if text_width(text, size) <= room:
        return text
    while text and text_width(f"{text}…", size) > room:
        text = text[:-1]
    return f"{text.rstrip()}…"


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a sans-serif font; an estimate, for no font is at hand.

    >>> text_width("mill", 10) < text_width("moon", 10) < text_width("月月月月", 10)
    True
    """
    return size * sum(map(_advance, text))


def _advance(letter: str) -> float:
    if unicodedata.combining(letter) or unicodedata.category(letter) in ("Mn", "Cf"):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.05
    if letter in "ijl.,'!|:;":
        return 0.3
    if letter in "frt()[]- ":
        return 0.4
    return 0.95 if letter in "mwMW…" else 0.72 if letter.isupper() else 0.61
