"""From a system to a results folder, and back: scoring what was kept gives the same scores."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import attune
from attune.dialogue.types import Context, Dialogue, Example
from attune.errors import AttuneError, DataError, MissingError, SettingsError
from attune.evaluate.evaluation import answer, evaluate
from attune.evaluate.scores import Scores, score_file
from attune.evaluate.signature import Signature
from attune.generate.systems import open_system
from tests.systems import small_system


def test_an_evaluation_leaves_config_scores_and_outputs(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    scores = evaluate(parrot, corpus, results=tmp_path / "results")
    folder = tmp_path / "results" / "parrot"
    assert sorted(path.name for path in folder.iterdir()) == ["config.yaml", "outputs.jsonl.gz", "scores.json"]
    assert [path.name for path in folder.parent.iterdir()] == ["parrot"]
    told = json.loads((folder / "scores.json").read_text())
    assert {"system", "variant", "protocol", "split", "n", "seed", "oracle", "signature", "metrics"} <= told.keys()
    assert (told["system"], told["variant"], told["protocol"], told["split"], told["n"]) == (
        "parrot",
        None,
        "listener-turns",
        "test",
        5,
    )
    assert told["oracle"] is False
    assert told["metrics"]["ppl_token"]["low"] <= told["metrics"]["ppl_token"]["value"]
    assert Signature.parse(told["signature"]) == Signature(
        "listener-turns-v1", "test", 5, "normal-form", "train-100", None, "greedy(max_steps=30)", 0, attune.__version__
    )
    assert Scores.read(folder).json() == scores.json() == (folder / "scores.json").read_text()


def test_outputs_hold_one_line_an_example_and_no_corpus_text(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    evaluate(parrot, corpus, results=tmp_path)
    text = gzip.decompress((tmp_path / "parrot" / "outputs.jsonl.gz").read_bytes()).decode()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["id"] for line in lines] == ["d2:2", "d3:2", "d4:2", "d4:4", "d4:6"]
    assert all(
        line.keys() == {"id", "prediction", "text", "predicted_emotion", "nll", "tokens", "unk_bytes"} for line in lines
    )
    assert "sorry" not in text
    assert "d1" not in text


def test_scoring_the_outputs_again_gives_the_same_scores(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    evaluate(parrot, corpus, results=tmp_path, variant="small")
    folder = tmp_path / "parrot-small"
    assert score_file(folder / "outputs.jsonl.gz", data=corpus).json() == (folder / "scores.json").read_text()


def test_the_same_evaluation_gives_the_same_bytes(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    for place in ("a", "b"):
        evaluate(parrot, corpus, results=tmp_path / place)
    for name in ("config.yaml", "scores.json", "outputs.jsonl.gz"):
        assert (tmp_path / "a/parrot" / name).read_bytes() == (tmp_path / "b/parrot" / name).read_bytes()


def test_the_run_gives_config_and_variant_and_gets_the_scores(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("system: parrot\nvariant: tuned\n")
    parrot.path = run
    scores = evaluate(parrot, corpus, results=tmp_path / "results")
    assert scores.title == "parrot-tuned"
    assert yaml.safe_load((tmp_path / "results/parrot-tuned/config.yaml").read_text())["variant"] == "tuned"
    assert Scores.read(run).json() == scores.json()


def test_results_keep_how_the_run_was_trained_and_what_it_began_with(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    for folder, steps in ((run / "before", 1), (run, 2)):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.yaml").write_text("system: parrot\nvariant: paper\n")
        (folder / "summary.json").write_text(json.dumps({"steps": steps}))
    parrot.path = run
    evaluate(parrot, corpus, results=tmp_path / "results")
    kept = tmp_path / "results" / "parrot"
    assert json.loads((kept / "summary.json").read_text()) == {"steps": 2}
    assert json.loads((kept / "before" / "summary.json").read_text()) == {"steps": 1}
    assert (kept / "before" / "config.yaml").is_file()


def test_the_base_variant_goes_without_saying(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    assert evaluate(parrot, corpus, results=tmp_path, variant="paper").title == "parrot"
    assert (tmp_path / "parrot").is_dir()


def test_other_splits_and_protocols_have_folders_of_their_own(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    evaluate(parrot, corpus, results=tmp_path, split="train", protocol="feedback")
    assert Scores.read(tmp_path / "parrot-feedback-train").signature.n == 3


def test_a_stopped_evaluation_goes_on_where_it_was(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    class Tired(type(parrot)):  # type: ignore[misc]
        def perceive(self, contexts: Sequence[Context], **settings: object) -> Any:
            if self.calls == [2]:
                raise KeyboardInterrupt
            return super().perceive(contexts)

    tired = Tired()
    with pytest.raises(KeyboardInterrupt):
        evaluate(tired, corpus, results=tmp_path / "a", chunk=2)
    assert [path.name for path in (tmp_path / "a").iterdir()] == [".parrot.partial.jsonl"]
    with (tmp_path / "a/.parrot.partial.jsonl").open("a") as file:
        file.write('{"id": "d4:2", "predi')  # as a crash would leave it
    seen = []
    evaluate(parrot, corpus, results=tmp_path / "a", chunk=2, progress=lambda done, total: seen.append((done, total)))
    assert parrot.calls == [2, 1]
    assert seen == [(4, 5), (5, 5)]
    evaluate(type(parrot)(), corpus, results=tmp_path / "b")
    for name in ("scores.json", "outputs.jsonl.gz"):
        assert (tmp_path / "a/parrot" / name).read_bytes() == (tmp_path / "b/parrot" / name).read_bytes()


@pytest.mark.slow
def test_several_workers_leave_the_same_bytes_as_one(dialogues: list[Dialogue], corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    system = small_system("emoprepend", dialogues)
    system.model.save_pretrained(run)
    system.codec.save(run)
    seen = []
    for workers, chunk in ((1, 512), (2, 2)):
        evaluate(
            open_system(run),
            corpus,
            results=tmp_path / str(workers),
            chunk=chunk,
            workers=workers,
            progress=lambda done, total: seen.append((done, total)),
        )
    assert seen == [(5, 5), (2, 5), (4, 5), (5, 5)]
    for name in ("scores.json", "outputs.jsonl.gz"):
        one, two = (tmp_path / str(workers) / "emoprepend" / name for workers in (1, 2))
        assert one.read_bytes() == two.read_bytes()


def test_workers_need_a_run_to_open(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="several workers need a run folder"):
        evaluate(parrot, corpus, results=tmp_path, workers=2)


def test_another_evaluation_does_not_go_on_from_a_stopped_one(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    class Stopped(type(parrot)):  # type: ignore[misc]
        def reply(self, contexts: Sequence[Context], **settings: object) -> Any:
            if self.calls:
                raise KeyboardInterrupt
            return super().reply(contexts)

    with pytest.raises(KeyboardInterrupt):
        evaluate(Stopped(), corpus, results=tmp_path, chunk=2, seed=1)
    evaluate(parrot, corpus, results=tmp_path, chunk=2, seed=2)
    assert parrot.calls == [2, 2, 1]


def test_a_failure_leaves_the_old_results_as_they_were(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    evaluate(parrot, corpus, results=tmp_path)
    before = (tmp_path / "parrot/scores.json").read_text()
    parrot.perceive = lambda contexts: 1 / 0
    with pytest.raises(ZeroDivisionError):
        evaluate(parrot, corpus, results=tmp_path, seed=9)
    assert (tmp_path / "parrot/scores.json").read_text() == before


def test_a_system_is_scored_by_what_it_offers(parrot: Any, corpus: Path, tmp_path: Path) -> None:
    class Ear(type(parrot)):  # type: ignore[misc]
        name, capabilities = "ear", frozenset({"perceive"})

    scores = evaluate(Ear(), corpus, results=tmp_path)
    assert scores.value("emotion_accuracy") is not None
    assert scores.value("dist_1") is None
    assert scores.signature.decoding == "none"
    assert scores.confusion is not None
    Ear.capabilities = frozenset()
    with pytest.raises(SettingsError, match="nothing can be scored"):
        evaluate(Ear(), corpus, results=tmp_path)


def test_a_word_level_run_tells_text_form_vocabulary_and_unknown_words(
    parrot: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attune.dialogue.vocabulary import build_tokenizer

    monkeypatch.delattr(type(parrot), "text_form")
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("system: parrot\ntext: {vocabulary: all-splits}\n")
    build_tokenizer(["how kind ! i am so sorry . did you know them ?"]).save(str(run / "tokenizer.json"))
    parrot.path = run
    signature = evaluate(parrot, corpus, results=tmp_path).signature
    assert (signature.text, signature.vocabulary) == ("normal-form", "all-splits-20")
    assert signature.oov == pytest.approx(100 * 11 / 30, abs=0.001)


def test_a_system_that_tells_nothing_of_its_text_is_not_guessed(
    parrot: Any, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(type(parrot), "text_form")
    signature = evaluate(parrot, corpus, results=tmp_path).signature
    assert (signature.text, signature.vocabulary, signature.oov) == ("as-given", "?", None)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"split": "tset"}, "did you mean 'test'"),
        ({"protocol": "listener"}, "unknown protocol 'listener'"),
        ({"variant": "../x"}, "a variant is lower-case letters"),
    ],
)
def test_wrong_settings_are_said_before_anything_is_done(
    parrot: Any, corpus: Path, tmp_path: Path, settings: dict[str, str], reason: str
) -> None:
    with pytest.raises(AttuneError, match=reason):
        evaluate(parrot, corpus, results=tmp_path / "r", **settings)  # type: ignore[arg-type]
    assert parrot.calls == []
    assert not (tmp_path / "r").exists()


def test_perceiving_and_replying_are_given_contexts_alone(parrot: Any, asked: list[Example]) -> None:
    heard: list[object] = []
    parrot.reply = lambda contexts, seed: heard.append(contexts) or type(parrot).reply(parrot, contexts)
    answer(parrot, asked)
    assert heard == [[example.context for example in asked]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [("{", "cannot be read as scores"), ("[]", "is not a scores file"), ('{"system": "x"}', "missing 'signature'")],
)
def test_a_broken_scores_file_is_said_so(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(DataError, match=reason):
        Scores.read(tmp_path)


def test_a_folder_without_scores_is_answered_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="attune evaluate"):
        Scores.read(tmp_path)


def test_a_metric_may_be_a_bare_number(tmp_path: Path, parrot: Any, corpus: Path) -> None:
    evaluate(parrot, corpus, results=tmp_path)
    path = tmp_path / "parrot/scores.json"
    told = json.loads(path.read_text())
    told["metrics"]["dist_1"] = 4.5
    path.write_text(json.dumps(told))
    assert Scores.read(path.parent).value("dist_1") == 4.5
