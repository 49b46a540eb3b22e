from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from attune.dialogue.check import check, show
from attune.dialogue.formats.plain import to_json
from attune.dialogue.types import Dialogue, Turn
from attune.errors import DataError


def talk(id: str, *texts: str, emotion: str | None = "sad") -> Dialogue:
    return Dialogue(id, tuple(Turn(("speaker", "listener")[i % 2], text) for i, text in enumerate(texts)), emotion)  # type: ignore[arg-type]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A small corpus with one of everything that a check looks for."""
    splits = {
        "train": [
            talk("a", "I lost my keys.", "Oh no!", "Yes.", "Sorry!"),
            talk("b", "I lost my keys.", "Where?", emotion="angry"),
            talk("c", "I LOST  my keys.", "Where?"),
            talk("c", "It's late.", emotion=None),
        ],
        "test": [talk("d", "I lost my keys.", "Where?"), talk("e", "Zebras sing.")],
    }
    for split, dialogues in splits.items():
        (tmp_path / f"{split}.jsonl").write_text("\n".join(map(to_json, dialogues)))
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write("\n{broken\n")
    return tmp_path


def test_a_check_counts_everything_once(corpus: Path) -> None:
    found = check(corpus)
    train, test = found.splits["train"], found.splits["test"]
    assert (train.reader, train.dialogues, train.turns, train.listener_turns) == ("jsonl", 4, 9, 4)
    assert train.examples == {
        "listener-turns": 4,
        "feedback": 1,
        "all-turns": 5,
        "labelled-turns": 0,
        "contexts-and-situations": 4,
    }
    assert train.emotions == {"sad": 2, "angry": 1}
    assert train.labels == {}
    assert (train.duplicate_ids, train.duplicate_dialogues, train.duplicate_contexts, train.bad_rows) == (1, 1, 2, 1)
    assert (test.duplicate_ids, test.duplicate_dialogues, test.duplicate_contexts, test.bad_rows) == (0, 0, 0, 0)
    assert (train.oov_rate, test.oov_rate) == (None, 2 / 10)
    assert (train.words, train.vocabulary) == (30, 15)
    assert found.shared_dialogues == {"train+test": 1}
    assert found.shared_contexts == {"train+test": 1}
    assert len(found.bad) == 1
    assert "train.jsonl:5: not JSON" in found.bad[0]


def test_a_check_can_be_written_as_json_and_shown_as_tables(corpus: Path) -> None:
    found = check(corpus)
    assert json.loads(json.dumps(found.as_json()))["splits"]["train"]["examples"]["listener-turns"] == 4
    console = Console(file=StringIO(), width=200)
    show(found, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    for line in ("examples, listener-turns-v1", "train+test 1", "sad 4 (80.0%)", "bad rows left out: 1", "20.00%"):
        assert line in shown


def test_labels_that_are_not_known_are_counted(corpus: Path) -> None:
    assert check(corpus, known=["sad"]).unknown == {"angry": 1}
    assert check(corpus).unknown == {}


def test_a_single_file_is_checked_and_strict_stops_at_the_first_bad_row(corpus: Path) -> None:
    assert check(corpus / "test.jsonl").splits["all"].dialogues == 2
    with pytest.raises(DataError, match=r"train\.jsonl:5: not JSON"):
        check(corpus, strict=True)


@pytest.mark.slow
def test_the_real_corpus_is_as_published(ed_dir: Path) -> None:
    found = check(ed_dir)
    assert {split: part.dialogues for split, part in found.splits.items()} == {
        "train": 19533,
        "valid": 2770,
        "test": 2547,
    }
    test = found.splits["test"]
    assert (test.duplicate_contexts, found.shared_contexts["valid+test"]) == (8, 1)
    assert len(test.emotions) == 32
    assert next(iter(test.emotions.items())) == ("surprised", 127)
    assert test.oov_rate is not None
    assert 0.005 < test.oov_rate < 0.01
    assert found.bad == []
