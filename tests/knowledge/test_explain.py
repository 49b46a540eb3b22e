from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.dialogue.types import Turn
from attune.errors import DataError, MissingError
from attune.knowledge.explain import Explanation, explain, feeling, find_dialogue, graph_json, turns_of
from attune.knowledge.graph import ContextGraph, GraphConcept

FIGURE_2 = turns_of(
    [
        "I am being in fear lately.",
        "oh no! Any particular reason why?",
        "I stared to cough blood 3 days ago and I fear it must be cancer.",
    ]
)


@pytest.fixture(scope="module")
def said() -> Explanation:
    return explain(FIGURE_2)


def test_the_dialogue_of_seed_000_has_its_keywords_and_concepts_in_the_printed_form(said: Explanation) -> None:
    assert {"cancer", "cough", "fear", "blood"} <= {keyword.word for keyword in said.keywords}
    assert "cancer <is a> disease" in [str(concept) for concept in said.concepts]
    assert all(concept.keyword in {keyword.word for keyword in said.keywords} for concept in said.concepts)


def test_emotion_words_are_found_turn_by_turn(said: Explanation) -> None:
    assert [[word.word for word in felt] for felt in said.felt] == [
        ["fear"],
        ["particular", "reason"],
        ["cough", "fear", "cancer"],
    ]
    fear = said.felt[0][0]
    assert (fear.why, feeling(fear.valence)) == ("lexicon", "unpleasant")
    assert "fear" in fear.emotions
    assert 0.5 < fear.intensity <= 1


def test_the_json_has_its_documented_shape(said: Explanation) -> None:
    found = json.loads(json.dumps(said.as_json()))
    assert list(found) == ["version", "turns", "keywords", "concepts", "graph", "sources"]
    assert found["version"] == 1
    assert list(found["turns"][0]) == ["role", "text", "emotion_words"]
    word = found["turns"][2]["emotion_words"][-1]
    assert list(word) == ["word", "start", "end", "intensity", "valence", "why", "emotions"]
    assert found["turns"][2]["text"][word["start"] : word["end"]] == "cancer"
    assert list(found["keywords"][0]) == ["word", "score"]
    concept = found["concepts"][0]
    parts = ["intensity", "cosine", "confidence"]
    assert list(concept) == ["text", "keyword", "relation", "concept", *parts, "score"]
    assert concept["score"] == pytest.approx(sum(concept[part] for part in parts), abs=2e-4)
    assert list(found["sources"]) == ["index", "vad", "emotions"]


def test_the_graph_of_the_json_has_every_vertex_and_edge_by_kind() -> None:
    graph = ContextGraph(("i", "fear"), (0, 0), (0.0, 0.8), (GraphConcept("panic", "IsA", 0.9, 0.3, (1,)),))
    found = graph_json(graph)
    assert [(vertex["text"], vertex["kind"], vertex["turn"]) for vertex in found["vertices"]] == [
        ("[CLS]", "cls", None),
        ("i", "word", 0),
        ("fear", "word", 0),
        ("panic", "concept", None),
    ]
    edges = {(edge["from"], edge["to"]): edge["kind"] for edge in found["edges"]}
    assert edges[2, 1] == "temporal"
    assert edges[2, 3] == "emotion"
    assert [edges[0, vertex] for vertex in (1, 2, 3)] == ["global"] * 3
    assert len(edges) == int(graph.adjacency.sum())


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("Sad? SAD! sad.", [0, 5, 10]),
        ("a sad-eyed, sad dog", [12]),
        ("saddle, sadly: sad", [15]),
        ("I can't be sad, it's not \"sad\"", [11, 26]),
        ("not 'sad', but sad", [15]),  # the tagger takes only the second for an adjective
    ],
)
def test_a_word_is_marked_where_it_stands_by_itself(text: str, places: list[int]) -> None:
    (felt,) = explain(turns_of([text])).felt
    assert [word.start for word in felt if word.word == "sad"] == places


WORDS = st.sampled_from(
    ["sad", "Happy", "can't", "the", "dog", "fear", "FEAR", "new", "great", "...", "!", "it's", "awful"]
)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(WORDS, st.sampled_from([" ", ", ", "  ", "! ", " \n"])), min_size=1, max_size=12))
def test_marks_follow_each_other_and_hold_their_word(pieces: list[tuple[str, str]]) -> None:
    text = "".join(word + gap for word, gap in pieces)
    (felt,) = explain(turns_of([text])).felt
    assert all(text[word.start : word.end].lower() == word.word for word in felt)
    assert all(one.end <= other.start for one, other in pairwise(felt))
    assert len(felt) >= sum(word.lower() in ("fear", "awful") for word, _ in pieces)


@pytest.mark.parametrize("texts", [[], [""], ["  \n", "\t"]])
def test_no_text_is_an_error_that_says_so(texts: list[str]) -> None:
    with pytest.raises(DataError, match="no text to explain"):
        explain(turns_of(texts))


@pytest.mark.parametrize("text", ["😀😀 🎉", "أنا حزين جدا", "我很难过", "...", "\x00\x1b[31m", "\ud800"])
def test_a_text_without_english_words_has_nothing_but_is_no_error(text: str) -> None:
    said = explain(turns_of([text]))
    assert (said.felt, said.concepts) == (((),), ())
    json.dumps(said.as_json(), ensure_ascii=False).encode()


def test_a_long_text_is_explained() -> None:
    said = explain(turns_of(["We lost our happy dog in the dark forest today. " * 1_000]))
    assert len(said.graph.words) > 10_000
    assert len(said.felt[0]) == 3_000
    assert len(said.graph.concepts) <= 10


def test_another_index_and_lexicon_may_be_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no concept index"):
        explain(FIGURE_2, index=tmp_path)
    with pytest.raises(MissingError, match="unknown lexicon 'warinner'; did you mean 'warriner'"):
        explain(FIGURE_2, vad="warinner")


def test_a_dialogue_is_found_by_its_id(tmp_path: Path) -> None:
    file = tmp_path / "two.jsonl"
    rows = [{"id": id, "turns": [{"role": "speaker", "text": text}]} for id, text in (("a", "Hi!"), ("b", "Bye!"))]
    file.write_text("\n".join(map(json.dumps, rows)))
    assert find_dialogue(file).id == "a"
    assert find_dialogue(file, "b").turns == (Turn("speaker", "Bye!"),)
    with pytest.raises(MissingError, match=r"two\.jsonl: holds no dialogue 'c'; its first is 'a'"):
        find_dialogue(file, "c")


def test_chat_messages_are_a_dialogue(tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text('[{"role": "user", "content": "I lost my dog."}, {"role": "assistant", "content": "Oh no."}]')
    assert [turn.role for turn in find_dialogue(file).turns] == ["speaker", "listener"]


def test_texts_take_turns() -> None:
    assert [turn.role for turn in turns_of(["a", "b", "c"])] == ["speaker", "listener", "speaker"]
