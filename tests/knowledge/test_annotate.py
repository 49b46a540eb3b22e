from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from attune.dialogue.formats.plain import to_json
from attune.dialogue.protocols import examples
from attune.dialogue.types import Context, Dialogue, Turn
from attune.errors import AttuneError, DataError, MissingError, SettingsError
from attune.knowledge import annotate as annotating
from attune.knowledge.annotate import FILE, AnnotateSettings, Annotation, Annotations, Annotator, Progress, annotate
from attune.knowledge.ckece import EmotionalConcept
from attune.knowledge.graph import ContextGraph, GraphConcept, GraphSettings
from attune.knowledge.keywords import Keyword


@pytest.fixture
def corpus_folder(tmp_path: Path, dialogues: list[Dialogue]) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    (folder / "train.jsonl").write_text("".join(to_json(dialogue) + "\n" for dialogue in dialogues[:3]))
    (folder / "test.jsonl").write_text("".join(to_json(dialogue) + "\n" for dialogue in dialogues[3:]))
    return folder


class Quick:
    """An annotator that needs no model: it says what it saw, and counts."""

    seen: int = 0

    def __init__(self, settings: AnnotateSettings) -> None:
        pass

    def __call__(self, contexts: Sequence[Context]) -> list[Annotation]:
        type(self).seen += len(contexts)
        return [self.one(context) for context in contexts]

    def one(self, context: Context) -> Annotation:
        last = context[-1].text
        concept = EmotionalConcept("fear", "IsA", "panic", 0.9, 0.123457, 0.25)
        graph = ContextGraph((last, "é"), (0, 1), (0.25, 0.0), (GraphConcept("panic", "IsA", 0.9, 0.25, (0, 1)),))
        return Annotation([Keyword(last, 0.5)], [concept], graph)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> type[Quick]:
    monkeypatch.setattr(annotating, "Annotator", Quick)
    monkeypatch.setattr(annotating, "SHARD", 2)
    monkeypatch.setattr(Quick, "seen", 0)
    annotating._annotator.cache_clear()
    return Quick


def test_annotations_come_back_as_they_were_made(
    quick: type[Quick], corpus_folder: Path, tmp_path: Path, dialogues: list[Dialogue]
) -> None:
    states: list[Progress] = []
    done = annotate(corpus_folder, tmp_path / "out", report=states.append)
    kept = Annotations(tmp_path / "out")
    made = list(examples(dialogues))
    assert (done.done, done.total, done.skipped, len(kept)) == (7, 7, 0, 7)
    assert [state.done for state in states] == [2, 4, 6, 7]
    for example in made:
        assert kept[example.id] == kept.of(example) == quick(AnnotateSettings()).one(example.context)


def test_only_the_splits_asked_for_are_annotated(quick: type[Quick], corpus_folder: Path, tmp_path: Path) -> None:
    assert annotate(corpus_folder, tmp_path / "out", splits=["test"]).done == 3
    assert annotate(corpus_folder, tmp_path / "out").done == 4
    assert annotate(corpus_folder / "train.jsonl", tmp_path / "file").done == 4


def test_a_rerun_does_nothing_again(quick: type[Quick], corpus_folder: Path, tmp_path: Path) -> None:
    annotate(corpus_folder, tmp_path / "out")
    assert annotate(corpus_folder, tmp_path / "out") == Progress(0, 0, 7)
    assert quick.seen == 7


def test_what_was_done_before_a_crash_is_kept(
    quick: type[Quick], corpus_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(state: Progress) -> None:
        if state.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate(corpus_folder, tmp_path / "out", report=crash)
    assert len(Annotations(tmp_path / "out")) == 4
    assert annotate(corpus_folder, tmp_path / "out") == Progress(3, 3, 4)
    assert quick.seen == 7


def test_a_changed_context_is_noticed_and_annotated_again(
    quick: type[Quick], corpus_folder: Path, tmp_path: Path, dialogues: list[Dialogue]
) -> None:
    annotate(corpus_folder, tmp_path / "out")
    (example, *_) = examples(dialogues)
    changed = replace(example, context=(Turn("speaker", "Something else."),))
    kept = Annotations(tmp_path / "out")
    with pytest.raises(DataError, match="of another context; annotate again"):
        kept.of(changed)
    with pytest.raises(DataError, match="of another context"):
        kept.of(replace(example, context=(replace(example.context[0], role="listener"),)))
    file = corpus_folder / "test.jsonl"
    file.write_text(file.read_text().replace("A stranger paid", "A stranger stole"))
    assert annotate(corpus_folder, tmp_path / "out").done == 3


def test_other_settings_are_refused_rather_than_mixed(quick: type[Quick], corpus_folder: Path, tmp_path: Path) -> None:
    annotate(corpus_folder, tmp_path / "out")
    other = AnnotateSettings(graph=GraphSettings(per_dialogue=20), protocol="all-turns")
    with pytest.raises(SettingsError, match=r"other settings \(graph, protocol\); give another --out"):
        annotate(corpus_folder, tmp_path / "out", other)
    assert Annotations(tmp_path / "out").settings["graph"]["per_dialogue"] == 10


def test_a_reader_can_be_handed_to_another_process(quick: type[Quick], corpus_folder: Path, tmp_path: Path) -> None:
    annotate(corpus_folder, tmp_path / "out")
    kept = Annotations(tmp_path / "out")
    assert pickle.loads(pickle.dumps(kept))["d1:2"] == kept["d1:2"]


def test_missing_annotations_say_how_to_make_them(quick: type[Quick], corpus_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(MissingError, match=r"looked for annotations.sqlite; make them with: attune knowledge annotate"):
        Annotations(tmp_path / "nothing")
    annotate(corpus_folder, tmp_path / "out", splits=["test"])
    kept = Annotations(tmp_path / "out")
    assert "d4:2" in kept
    assert "d1:2" not in kept
    with pytest.raises(MissingError, match="no annotation of example 'd1:2'"):
        kept["d1:2"]


def test_damage_is_noticed(quick: type[Quick], corpus_folder: Path, tmp_path: Path) -> None:
    annotate(corpus_folder, tmp_path / "out")
    with sqlite3.connect(tmp_path / "out" / FILE) as connection:
        connection.execute("UPDATE annotations SET record = x'00' WHERE id = 'd1:2'")
    with pytest.raises(DataError, match="the record of 'd1:2' is damaged"):
        Annotations(tmp_path / "out")["d1:2"]
    (tmp_path / "out" / FILE).write_bytes(b"not a database" * 100)
    with pytest.raises(DataError, match="damaged"):
        Annotations(tmp_path / "out")
    with pytest.raises(AttuneError, match="cannot write annotations"):
        annotate(corpus_folder, tmp_path / "out")


def test_real_annotations_hold_keywords_concepts_and_a_graph(dialogues: list[Dialogue]) -> None:
    contexts = [example.context for example in examples(dialogues)]
    together = Annotator()(contexts)
    dog = next(a for a, context in zip(together, contexts) if "dog" in context[-1].text)
    assert "dog" in [word for word, _ in dog.keywords]
    assert any(concept.keyword == "dog" for concept in dog.concepts)
    assert dog.graph.words[-2:] == ("monday", ".")
    assert annotating._unpacked(annotating._packed(dog)) == dog


@pytest.mark.slow
def test_two_workers_find_what_one_finds(corpus_folder: Path, tmp_path: Path, dialogues: list[Dialogue]) -> None:
    assert annotate(corpus_folder, tmp_path / "two", workers=2).done == 7
    assert annotate(corpus_folder, tmp_path / "one", workers=1).done == 7
    one, two = Annotations(tmp_path / "one"), Annotations(tmp_path / "two")
    for example in examples(dialogues):
        assert [word for word, _ in one[example.id].keywords] == [word for word, _ in two[example.id].keywords]
        assert one[example.id].concepts == two[example.id].concepts
        assert one[example.id].graph == two[example.id].graph
