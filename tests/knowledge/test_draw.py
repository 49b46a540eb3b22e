from __future__ import annotations

import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.dialogue.types import ROLES, Turn
from attune.knowledge.draw import MOST_WORDS, draw_graph, text_width
from attune.knowledge.explain import Explanation
from attune.knowledge.graph import ContextGraph, GraphConcept
from attune.knowledge.page import Node, as_html


def explanation(turns: list[list[str]], concepts: tuple[GraphConcept, ...] = ()) -> Explanation:
    """An explanation with nothing but a graph."""
    words = tuple(word for turn in turns for word in turn)
    graph = ContextGraph(
        words,
        tuple(number for number, turn in enumerate(turns) for _ in turn),
        tuple((i % 11) / 10 for i in range(len(words))),
        concepts,
    )
    said = tuple(Turn(ROLES[i % 2], " ".join(turn)) for i, turn in enumerate(turns))
    valences = tuple((None, 0.1, 0.5, 0.9)[i % 4] for i in range(len(graph)))
    return Explanation(said, tuple(() for _ in said), (), (), graph, valences, {})


FEAR = explanation(
    [["i", "fear", "it"], ["oh", "no", "!"], ["fear", "again"]],
    (GraphConcept("panic", "IsA", 0.9, 0.3, (1, 6)), GraphConcept("scream", "Causes", 0.7, 0.5, (1,))),
)


def groups(drawing: Node, kind: str) -> list[Node]:
    return [part for part in drawing.iter("g") if part.get("class", "").split()[0] == kind]


def title(part: Node) -> str:
    return part.findtext("title") or ""


def at(part: Node) -> tuple[float, float, float]:
    """Middle and radius of a vertex."""
    dot = part.findall("circle")[-1]
    return float(dot.get("cx", 0)), float(dot.get("cy", 0)), float(dot.get("r", 0))


def test_every_vertex_is_drawn_and_says_its_numbers_in_words() -> None:
    drawing = draw_graph(FEAR)
    assert [title(word) for word in groups(drawing, "word")][1] == "fear: word, intensity 0.10, neutral"
    assert len(groups(drawing, "word")) == 8
    assert [title(concept) for concept in groups(drawing, "concept")] == [
        "fear <is a> panic: concept, intensity 0.90, unpleasant, confidence 0.30",
        "fear <causes> scream: concept, intensity 0.70, neutral, confidence 0.50",
    ]
    assert [title(hub) for hub in groups(drawing, "cls")] == ["CLS: joined to every vertex"]


def test_the_drawing_has_a_title_and_a_description_for_readers() -> None:
    drawing = draw_graph(FEAR, name="mine")
    assert drawing.get("role") == "img"
    assert drawing.get("aria-labelledby") == "mine-title mine-about"
    found = {part.get("id"): part.text for part in (drawing.find("title"), drawing.find("desc")) if part is not None}
    assert found["mine-title"] == "Emotional context graph"
    assert "8 words in reading order, 2 concepts" in (found["mine-about"] or "")


def test_every_kind_of_edge_is_drawn() -> None:
    drawing = draw_graph(FEAR)
    (rays,), (steps,), (stems,) = (groups(drawing, kind) for kind in ("rays", "steps", "stems"))
    assert len(rays) == 8 + 2  # CLS ↔ each vertex
    assert len(steps) == 7  # each word but the first → the one before it
    assert len(stems) == 3  # panic belongs to two words


def test_the_same_graph_is_always_drawn_alike() -> None:
    assert as_html(draw_graph(FEAR)) == as_html(draw_graph(FEAR))


def test_two_drawings_on_a_page_share_no_id() -> None:
    ids = [re.findall(r' id="([^"]+)"', as_html(draw_graph(FEAR, name=name))) for name in ("wide", "narrow")]
    assert ids[0]
    assert not set(ids[0]) & set(ids[1])


def test_a_stronger_vertex_is_larger() -> None:
    panic, scream = (at(concept) for concept in groups(draw_graph(FEAR), "concept"))
    assert panic[2] > scream[2]


def test_a_graph_without_words_is_a_hub_alone() -> None:
    drawing = draw_graph(explanation([[]]))
    assert (len(groups(drawing, "word")), len(groups(drawing, "cls"))) == (0, 1)


def test_text_in_a_drawing_stays_text() -> None:
    drawing = draw_graph(explanation([["</text><script>alert(1)</script>", "&"]]))
    assert "<script" not in as_html(drawing)
    assert [word.findtext("text") for word in groups(drawing, "word")] == ["</text><script>al…", "&"]
    ElementTree.fromstring(ElementTree.tostring(drawing))


def test_of_a_long_text_the_words_with_concepts_and_the_last_ones_are_drawn() -> None:
    words = [f"w{i}" for i in range(5_000)]
    drawing = draw_graph(explanation([words], (GraphConcept("panic", "IsA", 0.9, 0.3, (7,)),)))
    drawn = [title(word).partition(":")[0] for word in groups(drawing, "word")]
    assert len(drawn) == MOST_WORDS
    assert drawn[0] == "w7"
    assert drawn[-1] == "w4999"
    assert f"{5_000 - MOST_WORDS} words are not drawn" in (drawing.findtext("desc") or "")


WORD = st.sampled_from(["i", "fear", "it", "extraordinary", "!", "dog", "misunderstanding", "月", "a"])


@st.composite
def explanations(draw: st.DrawFn) -> Explanation:
    turns = draw(st.lists(st.lists(WORD, min_size=1, max_size=20), min_size=1, max_size=4))
    total = sum(map(len, turns))
    places = draw(st.lists(st.lists(st.integers(0, total - 1), min_size=1, max_size=3), max_size=10))
    concepts = tuple(
        GraphConcept(
            f"concept{i}",
            draw(st.sampled_from(["IsA", "ConceptuallyRelatedTo"])),
            i / 10,
            0.3,
            tuple(sorted(set(some))),
        )
        for i, some in enumerate(places)
    )
    return explanation(turns, concepts)


@settings(max_examples=60, deadline=None)
@given(explanations(), st.sampled_from([350, 920]))
def test_words_stand_in_reading_order_inside_the_drawing_and_apart(said: Explanation, width: int) -> None:
    drawing = draw_graph(said, width)
    words = [(at(word), word.findtext("text") or "") for word in groups(drawing, "word")]
    assert [title(word).partition(":")[0] for word in groups(drawing, "word")] == list(said.graph.words)
    for (x, y, _), label in words:
        assert x - text_width(label, 13) / 2 >= 0
        assert x + text_width(label, 13) / 2 <= width
        assert y < float(drawing.get("viewBox", "").split()[3])
    for ((x, y, _), one), ((right, below, _), other) in pairwise(words):
        if y == below:
            assert x + text_width(one, 13) / 2 < right - text_width(other, 13) / 2
        else:
            assert y < below


@settings(max_examples=60, deadline=None)
@given(explanations(), st.sampled_from([350, 920]))
def test_concepts_grow_above_their_word_and_their_labels_do_not_meet(said: Explanation, width: int) -> None:
    drawing = draw_graph(said, width)
    words = [at(word) for word in groups(drawing, "word")]
    boxes: list[tuple[float, float, float, float]] = []
    for concept, part in zip(
        sorted(said.graph.concepts, key=lambda concept: concept.words[0]),
        groups(drawing, "concept"),
    ):
        x, y, r = at(part)
        word = words[concept.words[0]]
        assert y < word[1]
        assert abs(x - word[0]) < 40
        labels = part.findall("text")
        wide = max(text_width(label.text or "", size) for label, size in zip(labels, (13, 10)))
        left = "left" in part.get("class", "")
        box = (x - r - 5 - wide, x + r) if left else (x - r, x + r + 5 + wide)
        assert box[0] >= 0
        boxes.append((*box, y - 10, y + 13))
    for i, one in enumerate(boxes):
        for other in boxes[:i]:
            apart_across = one[1] <= other[0] + 0.2 or other[1] <= one[0] + 0.2
            apart_down = one[3] <= other[2] or other[3] <= one[2]
            assert apart_across or apart_down


@pytest.mark.parametrize(("narrow", "wide"), [("ill", "mmm"), ("a", "ab"), ("e\u0301", "ee"), ("ab", "月月")])
def test_the_estimate_of_a_width_knows_thin_and_wide_letters(narrow: str, wide: str) -> None:
    assert text_width(narrow, 13) < text_width(wide, 13)
