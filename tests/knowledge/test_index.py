from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

from attune.errors import DataError, MissingError
from attune.knowledge.index import ConceptIndex, base_forms, verify
from tests.knowledge.conftest import MakeIndex

FEAR = [
    ("IsA", "panic", "fear", 0.5),
    ("Causes", "fear", "scream", 1.0),
    ("HasProperty", "fear", "blood cell", 3.0),
    ("Synonym", "fear", "fear", 1.5),
]


def seen(index: ConceptIndex, word: str, direction: str = "both") -> set[tuple[str, str, float, bool]]:
    neighbours = index.neighbours(word, direction)  # type: ignore[arg-type]
    return {(n.relation, n.concept, n.scaled, n.forward) for n in neighbours}


def test_a_word_has_the_neighbours_of_both_directions(make_index: MakeIndex) -> None:
    index = make_index(FEAR)
    backward = {("IsA", "panic", 0.25, False)}
    forward = {
        ("Causes", "scream", 0.5, True),
        ("HasProperty", "blood cell", 1.0, True),
        ("Synonym", "fear", 0.75, True),
    }
    assert seen(index, "fear") == backward | forward
    assert seen(index, "fear", "out") == forward
    assert seen(index, "fear", "in") == backward
    assert seen(index, "blood cell") == {("HasProperty", "fear", 1.0, False)}


def test_an_edge_to_itself_is_there_once(make_index: MakeIndex) -> None:
    assert len(make_index([("Synonym", "fear", "fear", 1.0)]).neighbours("fear")) == 1


def test_an_unknown_word_has_no_neighbours(make_index: MakeIndex) -> None:
    index = make_index(FEAR)
    assert (list(index.neighbours("joy")), index.find("joy"), "joy" in index) == ([], None, False)
    assert list(index.neighbours("")) == []


def test_the_arrays_of_neighbours_say_the_same_as_the_objects(make_index: MakeIndex) -> None:
    index = make_index(FEAR)
    some = index.neighbours("fear")
    assert [index.relations[i] for i in some.relations] == [n.relation for n in some]
    assert index.texts(some.concepts) == [n.concept for n in some]
    assert some.weights.tolist() == [n.weight for n in some]
    assert some.scaled.tolist() == [n.scaled for n in some]
    assert some[0] == next(iter(some))
    assert len(some) == 4


@pytest.mark.parametrize("direction", ["both", "out", "in"])
def test_many_words_at_once_have_the_neighbours_they_have_one_by_one(make_index: MakeIndex, direction: str) -> None:
    index = make_index(FEAR)
    words = ["fear", "unheard", "panic", "fear", "scream"]
    batch = index.neighbours_many(words, direction)  # type: ignore[arg-type]
    assert len(batch) == len(words)
    for i, word in enumerate(words):
        part = slice(batch.offsets[i], batch.offsets[i + 1])
        alone = index.neighbours(word, direction)  # type: ignore[arg-type]
        assert batch.concepts[part].tolist() == alone.concepts.tolist()
        assert batch.relations[part].tolist() == alone.relations.tolist()
        assert batch.weights[part].tolist() == alone.weights.tolist()


def test_no_words_are_a_batch_too(make_index: MakeIndex) -> None:
    assert make_index(FEAR).neighbours_many([]).concepts.tolist() == []


def test_a_word_is_found_by_its_base_form_only_if_it_is_not_there_itself(make_index: MakeIndex) -> None:
    index = make_index([("IsA", "worry", "fear", 1.0), ("IsA", "stop", "worries", 1.0)])
    names = {word: index.resolve(word) for word in ("fears", "worries", "worried", "stopped", "stopping", "joys")}
    found = {word: None if number is None else index.concept(number) for word, number in names.items()}
    assert found == {
        "fears": "fear",
        "worries": "worries",
        "worried": "worry",
        "stopped": "stop",
        "stopping": "stop",
        "joys": None,
    }


@pytest.mark.parametrize(
    ("word", "base"),
    [
        ("hoping", "hope"),
        ("hopping", "hop"),
        ("wishes", "wish"),
        ("coughed", "cough"),
        ("cried", "cry"),
        ("days", "day"),
    ],
)
def test_base_forms_include_the_right_one(word: str, base: str) -> None:
    assert base in base_forms(word)


def test_short_words_and_double_s_lose_nothing() -> None:
    assert list(base_forms("is")) == []
    assert "los" not in base_forms("loss")


def test_phrases_are_told_from_words(make_index: MakeIndex) -> None:
    index = make_index(FEAR)
    assert {index.concept(i) for i in np.flatnonzero(index.is_phrase)} == {"blood cell"}


def test_concepts_with_other_letters_are_found(make_index: MakeIndex) -> None:
    index = make_index([("IsA", "crème brûlée", "désert", 1.0)])
    assert [n.concept for n in index.neighbours("crème brûlée")] == ["désert"]


def test_misspelt_words_have_near_ones(make_index: MakeIndex) -> None:
    assert make_index(FEAR).nearest("feer") == ["fear"]


def test_an_index_can_be_handed_to_another_process(make_index: MakeIndex) -> None:
    index = make_index(FEAR)
    assert seen(pickle.loads(pickle.dumps(index)), "fear") == seen(index, "fear")


def test_the_memory_of_found_words_is_bounded(make_index: MakeIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attune.knowledge.index._CACHED", 10)
    index = make_index(FEAR)
    for i in range(100):
        assert index.find(f"word{i}") is None
        assert len(index._known) <= 10


# ------------------------------------------------------------------------------------------------ damage


def test_a_folder_without_an_index_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(
        MissingError, match=r"looked for meta.json.*attune knowledge build.*ConceptNet 4 in Attune serves"
    ):
        ConceptIndex(tmp_path / "nothing")


@pytest.mark.parametrize("name", ["concepts", "edge_concepts", "buckets"])
def test_a_truncated_file_is_noticed_when_the_index_is_opened(make_index: MakeIndex, name: str) -> None:
    folder = make_index(FEAR).folder
    file = folder / f"{name}.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match=rf"{name}.bin: has .* bytes, expected"):
        ConceptIndex(folder)


def test_a_missing_file_is_noticed_when_the_index_is_opened(make_index: MakeIndex) -> None:
    folder = make_index(FEAR).folder
    (folder / "edge_weights.bin").unlink()
    with pytest.raises(DataError, match=r"edge_weights.bin: is missing"):
        ConceptIndex(folder)


@pytest.mark.parametrize("name", ["concepts", "edge_weights", "edge_offsets"])
def test_a_flipped_byte_is_noticed_by_verify(make_index: MakeIndex, name: str) -> None:
    folder = make_index(FEAR).folder
    verify(folder)
    file = folder / f"{name}.bin"
    content = bytearray(file.read_bytes())
    content[0] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}.bin: damaged"):
        verify(folder)


def test_a_changed_meta_is_noticed_when_the_index_is_opened(make_index: MakeIndex) -> None:
    folder = make_index(FEAR).folder
    meta = json.loads((folder / "meta.json").read_text())
    meta["scale"] = [0, 100]
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match="its checksum does not fit"):
        ConceptIndex(folder)
    (folder / "meta.json").write_text("{")
    with pytest.raises(DataError, match="not the JSON of a concept index"):
        ConceptIndex(folder)


def test_an_index_of_another_format_is_refused(make_index: MakeIndex) -> None:
    folder = make_index(FEAR).folder
    meta = json.loads((folder / "meta.json").read_text())
    meta["format"] = 99
    (folder / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(DataError, match=r"format 99, this version of Attune reads 1"):
        ConceptIndex(folder)
