from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.types import Turn
from attune.knowledge.ckece import EXCLUDED_RELATIONS as OF_SEED_000
from attune.knowledge.graph import (
    CONCEPT_KIND,
    EXCLUDED_RELATIONS,
    ContextGraph,
    GraphBuilder,
    GraphConcept,
    GraphSettings,
    batch_graphs,
)
from tests.knowledge.conftest import FewWords, MakeIndex

INTENSITIES = FewWords(
    {"panic": 0.9, "dread": 0.8, "scream": 0.7, "dark": 0.6, "night": 0.5, "cold": 0.4, "fear": 0.75}
)


def concepts(
    make_index: MakeIndex, said: str, *rows: tuple[str, str, str, float], **settings: object
) -> list[tuple[str, tuple[int, ...]]]:
    builder = GraphBuilder(make_index(rows), INTENSITIES, settings=GraphSettings(**settings))  # type: ignore[arg-type]
    return [(concept.concept, concept.words) for concept in builder((Turn("speaker", said),)).concepts]


def test_a_word_gets_its_concepts_by_falling_intensity(make_index: MakeIndex) -> None:
    rows = [
        ("Causes", "fear", concept, 0.5) for concept in ("night", "unknown", "panic", "cold", "dread", "dark", "scream")
    ]
    found = concepts(make_index, "I fear.", *rows, per_word=5)
    assert {concept for concept, _ in found} == {"panic", "dread", "scream", "dark", "night"}
    assert all(words == (1,) for _, words in found)


def test_a_dialogue_gets_the_concepts_with_the_highest_intensity_of_all_its_words(make_index: MakeIndex) -> None:
    rows = [("Causes", "fear", "cold", 0.5), ("Causes", "fear", "panic", 0.5), ("Causes", "worry", "dread", 0.5)]
    assert concepts(make_index, "fear and worry", *rows, per_dialogue=2) == [("panic", (0,)), ("dread", (2,))]


@pytest.mark.parametrize(("most", "count"), [(0, 0), (5, 5), (10, 10), (20, 12)])
def test_the_number_of_concepts_can_be_chosen(make_index: MakeIndex, most: int, count: int) -> None:
    rows = [("Causes", word, f"{word}{letter}", 0.5) for word in ("fear", "worry", "hate", "love") for letter in "abc"]
    assert len(concepts(make_index, "fear worry hate love", *rows, per_dialogue=most)) == count


@pytest.mark.parametrize("limit", [{"per_dialogue": 2}, {"per_word": 2}])
def test_concepts_outside_a_vocabulary_make_room_for_others(make_index: MakeIndex, limit: dict[str, int]) -> None:
    index = make_index([("Causes", "storm", word, 1.0) for word in ("fear", "dread", "panic")])

    def found(vocabulary: set[str] | None) -> set[str]:
        builder = GraphBuilder(index, INTENSITIES, settings=GraphSettings(**limit), vocabulary=vocabulary)
        return {one.concept for one in builder.of_words([["storm"]]).concepts}

    assert found(None) == {"panic", "dread"}
    assert found({"fear", "dread"}) == {"fear", "dread"}


def test_a_stop_word_has_no_concepts(make_index: MakeIndex) -> None:
    assert concepts(make_index, "something", ("Causes", "something", "panic", 0.5)) == []


def test_a_concept_that_is_a_stop_word_a_phrase_or_the_word_itself_is_left_out(make_index: MakeIndex) -> None:
    rows = [("Causes", "fear", concept, 0.5) for concept in ("something", "dark night", "fear", "dread")]
    assert [concept for concept, _ in concepts(make_index, "fear", *rows)] == ["dread"]


def test_the_confidence_has_to_be_above_the_threshold(make_index: MakeIndex) -> None:
    rows = [("Causes", "fear", "panic", 0.2), ("Causes", "fear", "dread", 0.202)]  # confidences 0.1 and 0.101
    assert [concept for concept, _ in concepts(make_index, "fear", *rows)] == ["dread"]


@pytest.mark.parametrize("relation", sorted(EXCLUDED_RELATIONS))
def test_an_excluded_relation_is_left_out(make_index: MakeIndex, relation: str) -> None:
    rows = [(relation, "fear", "panic", 1.0), ("Causes", "fear", "dread", 1.0)]
    assert [concept for concept, _ in concepts(make_index, "fear", *rows)] == ["dread"]


def test_kemps_16_relations_are_excluded() -> None:
    assert len(EXCLUDED_RELATIONS) == 16
    assert {"Synonym", "CreatedBy", "MadeOf"} == EXCLUDED_RELATIONS - OF_SEED_000


def test_a_concept_of_two_words_is_one_vertex_with_two_edges(make_index: MakeIndex) -> None:
    rows = [("Causes", "fear", "panic", 0.5), ("IsA", "worry", "panic", 0.5)]
    graph = GraphBuilder(make_index(rows), INTENSITIES)((Turn("speaker", "fear or worry"), Turn("listener", "fear?")))
    (only,) = graph.concepts
    assert (only.concept, only.relation, only.words) == ("panic", "Causes", (0, 2, 3))
    vertex = graph.vertices.index("panic")
    assert np.flatnonzero(graph.adjacency[:, vertex]).tolist() == [0, 1, 3, 4]
    assert graph.turns == (0, 0, 0, 1, 1)


def test_statements_are_read_in_both_directions_unless_told_otherwise(make_index: MakeIndex) -> None:
    rows = [("IsA", "panic", "fear", 0.5)]
    assert concepts(make_index, "fear", *rows) == [("panic", (0,))]
    assert concepts(make_index, "fear", *rows, direction="out") == []


def test_an_inflected_word_is_looked_up_by_its_base_form(make_index: MakeIndex) -> None:
    assert concepts(make_index, "fears", ("Causes", "fear", "panic", 0.5)) == [("panic", (0,))]


def test_an_inflected_word_is_as_intense_as_its_base_form_where_the_lexicon_has_only_that(
    make_index: MakeIndex,
) -> None:
    lexicon = FewWords({"fear": 0.75, "panic": 0.9, "panics": 0.0, "bee": 0.5})
    builder = GraphBuilder(make_index([("Causes", "fear", "dread", 0.5)]), lexicon)
    words = ["fears", "feared", "panics", "unheard", "being"]  # "being" is a stop word
    assert builder.of_words([words]).word_intensities == (0.75, 0.75, 0.0, 0.0, 0.0)


def test_the_graph_of_a_small_dialogue_edge_by_edge(make_index: MakeIndex) -> None:
    index = make_index([("Causes", "fear", "panic", 0.5)])
    graph = GraphBuilder(index, INTENSITIES)((Turn("speaker", "I fear it."),))
    assert graph.vertices == ("[CLS]", "i", "fear", "it", ".", "panic")
    assert graph.kinds.tolist() == [0, 1, 1, 1, 1, 2]
    assert graph.eta.tolist() == pytest.approx([0, 0, 0.75, 0, 0, 0.9])
    assert graph.sources.tolist() == [-1, -1, -1, -1, -1, 2]
    between = {(2, 1), (3, 2), (4, 3), (2, 5)}  # word → word before it, word → its concept
    cls = {(0, i) for i in range(1, 6)} | {(i, 0) for i in range(1, 6)}
    assert {tuple(edge) for edge in graph.edges.tolist()} == between | cls
    assert {tuple(edge) for edge in np.argwhere(graph.adjacency).tolist()} == between | cls


def test_an_empty_context_is_a_graph_of_cls_alone(make_index: MakeIndex) -> None:
    graph = GraphBuilder(make_index([("IsA", "a", "b", 1.0)]), INTENSITIES)(())
    assert (graph.vertices, graph.adjacency.tolist()) == (("[CLS]",), [[False]])


graphs = st.builds(
    lambda words, places: ContextGraph(
        tuple(words),
        tuple(range(len(words))),
        tuple(0.1 for _ in words),
        tuple(GraphConcept(f"c{i}", "IsA", 0.5, 0.5, (place % len(words),)) for i, place in enumerate(places))
        if words
        else (),
    ),
    st.lists(st.sampled_from(["i", "fear", "it"]), max_size=8),
    st.lists(st.integers(0, 7), max_size=4),
)


@given(graphs)
def test_every_vertex_is_joined_to_cls_and_none_to_itself(graph: ContextGraph) -> None:
    adjacency = graph.adjacency
    assert not adjacency.diagonal().any()
    assert adjacency[0, 1:].all()
    assert adjacency[1:, 0].all()
    from_concepts = adjacency[graph.kinds == CONCEPT_KIND]
    assert from_concepts.sum() == len(graph.concepts)  # a concept leads to CLS and nowhere else


@given(st.lists(graphs, min_size=1, max_size=4))
def test_a_batch_holds_every_graph_and_nothing_in_its_padding(some: list[ContextGraph]) -> None:
    batch = batch_graphs(some, encode=lambda word: 7 + len(word), padding=3)
    for row, graph in enumerate(some):
        size = len(graph)
        assert batch["mask"][row].sum() == size
        assert batch["mask"][row, :size].all()
        np.testing.assert_array_equal(batch["adjacency"][row, :size, :size], graph.adjacency)
        assert not batch["adjacency"][row, size:].any()
        assert not batch["adjacency"][row, :, size:].any()
        np.testing.assert_array_equal(batch["eta"][row, :size], graph.eta)
        np.testing.assert_array_equal(batch["kinds"][row, :size], graph.kinds)
        np.testing.assert_array_equal(batch["sources"][row, :size], graph.sources)
        assert batch["turns"][row, 1 : 1 + len(graph.words)].tolist() == list(graph.turns)
        assert batch["ids"][row, :size].tolist() == [7 + len(vertex) for vertex in graph.vertices]
        assert (batch["ids"][row, size:] == 3).all()


def test_without_an_encoding_a_batch_has_no_ids() -> None:
    assert "ids" not in batch_graphs([ContextGraph((), (), (), ())])


def test_the_papers_dialogue_gets_emotional_concepts() -> None:
    said = ("I am being in fear lately.", "oh no! Any particular reason why?")
    context = tuple(Turn(("speaker", "listener")[i % 2], text) for i, text in enumerate(said))  # type: ignore[arg-type]
    graph = GraphBuilder()(
        (*context, Turn("speaker", "I stared to cough blood 3 days ago and I fear it must be cancer."))
    )
    assert len(graph.concepts) == 10
    assert min(concept.intensity for concept in graph.concepts) > 0.7
    assert {"death", "pain"} <= {concept.concept for concept in graph.concepts}
