"""Files of outputs: what is read, what is refused and how it is said, and what a corpus adds."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attune.dialogue.text import normal_form
from attune.errors import AttuneError, DataError, MissingError
from attune.evaluate import outputs as module
from attune.evaluate.outputs import Item, Outputs, join, line, read_outputs, training_responses, write_outputs


def written(path: Path, *lines: object) -> Path:
    path.write_text(
        "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines), encoding="utf-8"
    )
    return path


def test_a_line_is_read_with_all_that_it_tells(tmp_path: Path) -> None:
    told = {
        "prediction": "i see .",
        "reference": "oh !",
        "emotion": "Sad",
        "predicted_emotion": "sad",
        "nll": 7,
        "tokens": 3,
    }
    (item,) = read_outputs(written(tmp_path / "o.jsonl", {"context": ["hi"], **told}))
    assert (item.prediction, item.reference, item.emotion, item.predicted_emotion) == ("i see .", "oh !", "sad", "sad")
    assert (item.nll, item.tokens, item.unk_bytes, item.id) == (7.0, 3, 0, None)


def test_zipped_files_are_read_whatever_their_name(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(gzip.compress(b'{"prediction": "yes"}\n', mtime=0))
    assert read_outputs(path)[0].prediction == "yes"


def test_a_byte_order_mark_and_blank_lines_are_no_problem(tmp_path: Path) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prediction": "yes"}\r\n\r\n{"prediction": "no"}')
    assert [item.prediction for item in read_outputs(path)] == ["yes", "no"]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("{", "o.jsonl:2: is not JSON"),
        ("[1]", "o.jsonl:2: expected a JSON object, found list"),
        ({"reference": "a"}, "o.jsonl:2: has no 'prediction' (keys: reference)"),
        ({"prediction": 3}, "o.jsonl:2: 'prediction' must be text, found 3"),
        ({"prediction": "a", "emotion": "sadd"}, "o.jsonl:2: 'emotion': unknown emotion 'sadd'; did you mean 'sad'?"),
        ({"prediction": "a", "nll": "3"}, "o.jsonl:2: 'nll' must be a number of at least 0, found '3'"),
        ('{"prediction": "a", "nll": NaN}', "o.jsonl:2: 'nll' must be a number of at least 0, found nan"),
        ({"prediction": "a", "nll": -1}, "o.jsonl:2: 'nll' must be a number of at least 0, found -1"),
        ({"prediction": "a", "tokens": 0}, "o.jsonl:2: 'tokens' must be a whole number of at least 1, found 0"),
        ({"prediction": "a", "tokens": 2.5}, "o.jsonl:2: 'tokens' must be a whole number of at least 1, found 2.5"),
        ({"prediction": "a", "id": "x"}, "o.jsonl:2: id 'x' stands in line 1 already"),
    ],
)
def test_a_bad_line_is_named_with_its_reason(tmp_path: Path, bad: object, reason: str) -> None:
    path = written(tmp_path / "o.jsonl", {"prediction": "fine", "id": "x"}, bad)
    with pytest.raises(DataError) as error:
        read_outputs(path)
    assert reason in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (bytes(range(128, 256)), "is not UTF-8 text"),
        (bytes(range(256)), "is not JSON"),
        (gzip.compress(b'{"prediction": "yes"}' * 100, mtime=0)[:-20], "cannot be read"),
    ],
)
def test_a_file_that_is_no_text_is_said_so(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "o.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=reason):
        read_outputs(tmp_path / "o.jsonl")


def test_a_missing_file_and_a_folder_are_said_so(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no file at"):
        read_outputs(tmp_path / "none.jsonl")
    with pytest.raises(DataError, match="is a folder"):
        read_outputs(tmp_path)


def test_an_endless_line_is_refused_without_reading_it_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_LINE", 1000)
    (tmp_path / "o.jsonl").write_bytes(b"x" * 100_000)
    with pytest.raises(DataError, match=r"o\.jsonl:1: the line is longer than 1,000 bytes"):
        read_outputs(tmp_path / "o.jsonl")


def test_a_need_that_some_items_lack_is_counted() -> None:
    outputs = Outputs([Item(prediction="a", nll=1.0), Item(prediction="b")])
    assert outputs.lacks("prediction") is None
    assert outputs.lacks("nll") == "1 of 2 items have no 'nll'"
    assert outputs.lacks("training") is not None
    assert Outputs([], text_form="raw").lacks("nll of raw text") is None


ITEMS = st.builds(
    Item,
    id=st.text(min_size=1),
    prediction=st.text(),
    text=st.none() | st.text(),
    reference=st.text(),
    emotion=st.sampled_from(["sad", "afraid"]),
    predicted_emotion=st.none() | st.sampled_from(["sad", "afraid"]),
    nll=st.none() | st.floats(0, 1e6),
    tokens=st.none() | st.integers(1, 1000),
    unk_bytes=st.integers(0, 99),
    raw_reference=st.text(),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(ITEMS, min_size=1, unique_by=lambda item: item.id))
def test_what_is_written_is_read_again_but_no_corpus_text(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item]
) -> None:
    path = tmp_path_factory.mktemp("o") / "outputs.jsonl.gz"
    write_outputs(path, items)
    again = read_outputs(path)
    assert [line(item) for item in again] == [line(item) for item in items]
    assert all(item.reference is None and item.raw_reference is None and item.emotion is None for item in again)


def test_the_same_items_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.gz", "b.gz"):
        write_outputs(tmp_path / name, [Item(id="1", prediction="yes")])
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_corpus_gives_references_and_emotions_by_id(corpus: Path) -> None:
    joined = join([Item(id="d2:2", prediction="x"), Item(id="d3:2", prediction="x", reference="own .")], corpus)
    first, second = joined.items
    assert (first.raw_reference, first.emotion) == ("I'm so sorry. How old was she?", "sad")
    assert first.reference == normal_form("I'm so sorry. How old was she?")
    assert second.reference == "own ."
    assert (joined.split, joined.protocol) == ("test", None)


def test_the_protocol_is_told_when_all_its_examples_are_there(corpus: Path) -> None:
    ids = ["d2:2", "d3:2", "d4:2", "d4:4", "d4:6"]
    assert join([Item(id=one) for one in ids], corpus).protocol == "listener-turns"
    assert join([Item(id=one) for one in ("d4:2", "d4:4")], corpus).protocol == "feedback"
    assert join([Item(id=one) for one in ids[1:]], corpus).protocol is None


def test_ids_of_two_splits_are_found(corpus: Path) -> None:
    assert join([Item(id="d1:2"), Item(id="d2:2")], corpus).split == "test+train"


@pytest.mark.parametrize(("id", "reason"), [("d9:2", "id 'd9:2' is not in the corpus"), (None, "a line has no 'id'")])
def test_what_cannot_be_joined_is_said(corpus: Path, id: str | None, reason: str) -> None:
    with pytest.raises(AttuneError, match=reason):
        join([Item(id=id, prediction="x")], corpus)


def test_training_responses_are_the_listeners_turns_in_normal_form(corpus: Path) -> None:
    known = training_responses(corpus)
    assert known is not None
    assert "how kind !" in known
    assert normal_form("My sister is coming.") not in known
    (corpus / "train.jsonl").unlink()
    assert training_responses(corpus) is None


def test_all_of_ed_test_is_joined(ed_dir: Path) -> None:
    from attune.dialogue.protocols import examples
    from attune.dialogue.readers import read

    items = [Item(id=example.id, prediction="") for example in examples(read(ed_dir, split="test"))]
    joined = join(items, ed_dir)
    assert (len(joined.items), joined.split, joined.protocol) == (5259, "test", "listener-turns")
    assert all(item.raw_reference is not None and item.emotion for item in joined.items)
