from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.formats.plain import to_json
from attune.dialogue.protocols import examples
from attune.dialogue.readers import read
from attune.dialogue.text import normalise
from attune.dialogue.types import Dialogue, Turn
from attune.errors import DataError
from attune.knowledge import overlap
from attune.knowledge.index import ConceptIndex
from attune.knowledge.overlap import knowledge_statistics
from attune.knowledge.stopwords import STOP_WORDS
from tests.knowledge.conftest import MakeIndex

ROWS = [("IsA", "dog", "animal", 1.0), ("Desires", "puppy", "dog", 1.0), ("UsedFor", "vet", "animal", 1.0)]


def write(path: Path, *dialogues: tuple[str, ...]) -> Path:
    rows = (
        Dialogue(f"d{i}", tuple(Turn(("speaker", "listener")[j % 2], text) for j, text in enumerate(texts)))  # type: ignore[arg-type]
        for i, texts in enumerate(dialogues)
    )
    path.write_text("\n".join(map(to_json, rows)))
    return path


def test_words_are_counted_by_where_they_come_from(tmp_path: Path, make_index: MakeIndex) -> None:
    file = write(tmp_path / "one.jsonl", ("I love my dog", "A dog is an animal, the vet says; and the puppy?"))
    found = knowledge_statistics(file, index=make_index(ROWS))
    assert found.words == 5  # dog, animal, vet, says, puppy
    assert found.in_history == 1  # dog
    assert (found.one_hop, found.only_one_hop) == (
        2,
        2,
    )  # animal and, against the arrow, puppy; the vet is two hops away
    assert found.neither == 2
    assert (found.responses, found.responses_in_history, found.responses_one_hop) == (1, 1, 1)
    assert found.history_bins.tolist() == [0, 0, 1, *[0] * 8]
    assert found.one_hop_bins.tolist() == [0, 0, 0, 0, 1, *[0] * 6]


def test_words_are_looked_up_by_their_base_form(tmp_path: Path, make_index: MakeIndex) -> None:
    file = write(tmp_path / "one.jsonl", ("Our dogs", "Two animals"))
    assert knowledge_statistics(file, index=make_index(ROWS)).one_hop == 1


def test_the_whole_history_counts_not_only_the_last_turn(tmp_path: Path, make_index: MakeIndex) -> None:
    file = write(tmp_path / "one.jsonl", ("My dog died", "Sorry", "Thank you", "Poor animal, poor dog"))
    found = knowledge_statistics(file, index=make_index(ROWS))
    assert (found.responses, found.in_history, found.one_hop) == (2, 1, 1)


def test_responses_of_stop_words_are_left_out_and_counted(tmp_path: Path, make_index: MakeIndex) -> None:
    file = write(tmp_path / "two.jsonl", ("My dog", "You are so!"), ("My dog", "Animal!"))
    found = knowledge_statistics(file, index=make_index(ROWS))
    assert (found.responses, found.empty) == (1, 1)


def test_nothing_to_count_is_an_error(tmp_path: Path, make_index: MakeIndex) -> None:
    file = write(tmp_path / "none.jsonl", ("My dog",))
    with pytest.raises(DataError, match=r"none\.jsonl: no listener turn answers anything"):
        knowledge_statistics(file, index=make_index(ROWS))


def test_the_json_has_its_documented_shape(tmp_path: Path, make_index: MakeIndex) -> None:
    index = make_index(ROWS)
    file = write(tmp_path / "one.jsonl", ("I love my dog", "The animal and the dog"))
    found = json.loads(json.dumps(knowledge_statistics(file, index=index).as_json()))
    assert found["index"] == {"source": "conceptnet4", "checksum": index.checksum}
    assert found["words"] == {"count": 2, "in_history": 0.5, "one_hop": 0.5, "only_one_hop": 0.5, "neither": 0.0}
    assert found["responses_with_a_word"] == {"in_history": 1.0, "one_hop": 1.0}
    assert found["seed_001"] == {"in_history": 0.005, "one_hop": 0.801}
    assert sum(found["responses_by_share"]["one_hop"]) == found["responses"] == 1


def test_how_responses_are_taken_together_changes_nothing(
    tmp_path: Path, make_index: MakeIndex, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = make_index([("IsA", "dog", "sorry", 1.0), ("IsA", "race", "proud", 1.0)])
    whole = knowledge_statistics(corpus, index=index).as_json()
    told: list[int] = []
    monkeypatch.setattr(overlap, "_CHUNK", 7)
    assert knowledge_statistics(corpus, index=index, report=told.append).as_json() == whole
    assert told[0] == 7
    assert told[-1] == whole["responses"] + whole["responses_without_words"]


def slowly(path: Path, index: ConceptIndex) -> tuple[int, int, int]:
    """Words, words in the history and words one hop from it, without any of the short cuts."""
    words = history_words = hops = 0
    for example in examples(read(path)):
        said = {w for turn in example.context for w in normalise(turn.text) if w[0].isalnum() and w not in STOP_WORDS}
        response = {w for w in normalise(example.response.text) if w[0].isalnum() and w not in STOP_WORDS}
        near = {
            n.concept
            for word in said
            if (number := index.resolve(word)) is not None
            for n in index.neighbours_of(number)
        }
        words += len(response)
        history_words += len(response & said)
        for word in response:
            number = index.resolve(word)
            hops += number is not None and index.concept(number) in near
    return words, history_words, hops


def test_the_batched_count_is_the_count_one_by_one(corpus: Path, make_index: MakeIndex) -> None:
    index = make_index(
        [
            ("IsA", "dog", "sorry", 1.0),
            ("Causes", "proud", "race", 1.0),
            ("IsA", "dark street", "street", 1.0),
            ("IsA", "kind", "neighbour", 1.0),
        ]
    )
    found = knowledge_statistics(corpus / "train.jsonl", index=index)
    assert (found.words, found.in_history, found.one_hop) == slowly(corpus / "train.jsonl", index)
    assert found.one_hop > 0


@given(st.integers(1, 40).flatmap(lambda whole: st.tuples(st.integers(0, whole), st.just(whole))))
def test_a_bin_is_none_or_the_next_tenth(share: tuple[int, int]) -> None:
    part, whole = share
    tenth = overlap._bin(part, whole)
    assert (tenth == 0) == (part == 0)
    assert (tenth == 10) == (10 * part > 9 * whole)
    assert tenth - 1 < 10 * part / whole <= tenth or part == 0


@pytest.mark.slow
def test_seed_001s_figure_2_points_the_same_way_on_the_whole_corpus(ed_dir: Path) -> None:
    found = knowledge_statistics(ed_dir).as_json()
    assert found["responses"] + found["responses_without_words"] == 51_251
    assert found["words"]["one_hop"] > 2 * found["words"]["in_history"]
    assert found["responses_with_a_word"]["one_hop"] > found["responses_with_a_word"]["in_history"] + 0.2
