"""`attune score`, `evaluate`, `audit`, `compare`, `results`: what a person types and what they get."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from attune.cli.main import run
from attune.dialogue.types import Dialogue
from tests.systems import small_system

FIXED = ("n", "dist_1", "dist_2", "dist_1_at_1000", "dist_2_at_1000", "avg_bleu", "emotion_accuracy", "signature")


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTUNE_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def attune(capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; exit code, stdout, stderr."""

    def call(*words: object) -> tuple[object, str, str]:
        with pytest.raises(SystemExit) as end:
            run([str(word) for word in words])
        out, err = capsys.readouterr()
        return end.value.code, out, err

    return call


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    path = tmp_path / "outputs.jsonl"
    lines = [
        {"prediction": "i am so sorry to hear that .", "reference": "i am so sorry . how old was she ?"},
        {"prediction": "oh no ! what happened ?", "reference": "oh no ! can you call someone ?"},
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_json_is_one_object_with_the_fixed_keys(attune: Any, outputs: Path) -> None:
    code, out, err = attune("score", outputs, "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert all(key in told for key in FIXED)
    assert told["n"] == 2
    assert told["dist_1"] == pytest.approx(100 * 14 / 14)
    assert told["avg_bleu"] > 0
    assert told["emotion_accuracy"] is None
    assert told["dist_1_at_1000"] is None
    assert told["signature"].startswith("protocol:given|split:given|n:2|")
    assert told["intervals"]["avg_bleu"][0] <= told["avg_bleu"] <= told["intervals"]["avg_bleu"][1]


def test_the_table_says_what_each_number_is_and_why_others_are_absent(attune: Any, outputs: Path) -> None:
    code, out, _ = attune("score", outputs)
    assert code == 0
    assert "dist_1" in out
    assert "2 of 2 items have no 'emotion'" in out


def test_a_corpus_is_joined_by_id(attune: Any, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    turns = [{"role": "speaker", "text": "My dog died."}, {"role": "listener", "text": "I'm so sorry to hear."}]
    (tmp_path / "corpus/test.jsonl").write_text(json.dumps({"id": "d1", "emotion": "sad", "turns": turns}) + "\n")
    line = {"id": "d1:2", "prediction": "i am so sorry to hear .", "predicted_emotion": "sad", "nll": 12.5, "tokens": 8}
    (tmp_path / "o.jsonl.gz").write_bytes(gzip.compress(json.dumps(line).encode()))
    code, out, _ = attune("score", "o.jsonl.gz", "--data", "corpus", "--json")
    told = json.loads(out)
    assert code == 0
    assert (told["avg_bleu"], told["emotion_accuracy"]) == (pytest.approx(100), 100)
    assert told["bits_per_byte"] == pytest.approx(12.5 / 0.693147 / 21, rel=1e-4)
    assert told["signature"].startswith("protocol:listener-turns-v1|split:test|n:1|")
    assert told["copied_replies"] is None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "o.jsonl: is empty"),
        (b'{"prediction": "a"}\n{"text": 1}\n', "o.jsonl:2: has no 'prediction'"),
        (b"prediction,reference\na,b\n", "o.jsonl:1: is not JSON"),
        (b"\xff\xfe\x00\x01", "o.jsonl:1: is not UTF-8 text"),
        (b"x" * 10_000_001, "o.jsonl:1: the line is longer than"),
    ],
)
def test_bad_files_give_one_line_and_no_traceback(attune: Any, tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / "o.jsonl").write_bytes(content)
    code, out, err = attune("score", "o.jsonl", "--json")
    assert code not in (0, None)
    assert out == ""
    assert reason in err
    assert err.count("\n") == 1
    assert len(err) < 500


def test_a_missing_file_is_said_so(attune: Any) -> None:
    code, _, err = attune("score", "none.jsonl")
    assert code == 2
    assert err == "attune: error: no file at none.jsonl\n"


def test_compare_shows_refuses_and_mixes(attune: Any, tmp_path: Path) -> None:
    from attune.evaluate.intervals import Score
    from attune.evaluate.scores import Scores
    from attune.evaluate.signature import Signature

    for name, decoding in (("a", "greedy"), ("b", "beam")):
        signature = Signature("listener-turns-v1", "test", 10, decoding=decoding)
        Scores(system=name, signature=signature, metrics={"dist_1": Score(1.0), "ppl_token": Score(30.0)}).write(
            tmp_path / name
        )
    code, _, err = attune("compare", "a", "b")
    assert code == 2
    assert "dist_1 of 'a' and 'b' may not share a column (decoding: greedy ≠ beam)" in err
    assert attune("compare", "a", "b", "--metric", "ppl_token")[0] == 0
    code, out, _ = attune("compare", "a", "b", "--mix", "--out", "page.html")
    assert code == 0
    assert "1.00ᵃ" in out
    assert "<svg" in (tmp_path / "page.html").read_text()
    code, _, err = attune("compare", "none")
    assert code == 2
    assert "attune evaluate none" in err


def test_results_writes_the_page(attune: Any, tmp_path: Path) -> None:
    assert attune("results")[:2] == (0, "wrote docs/RESULTS.md\n")
    assert (tmp_path / "docs/RESULTS.md").read_text().startswith("# Results\n")


def test_an_unwritable_page_is_one_line(attune: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    code, _, err = attune("results", "--out", "file/RESULTS.md")
    assert code == 2
    assert err.startswith("attune: error: cannot write file/RESULTS.md")
    assert err.count("\n") == 1


@pytest.fixture
def corpus(dialogues: list[Dialogue], tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for split in ("train", "test"):
        lines = [
            {"id": d.id, "emotion": d.emotion, "turns": [{"role": t.role, "text": t.text} for t in d.turns]}
            for d in dialogues
        ]
        (folder / f"{split}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


@pytest.fixture
def trained(dialogues: list[Dialogue], tmp_path: Path) -> Path:
    """A run folder as training leaves it."""
    system = small_system("emoprepend", dialogues)
    system.model.save_pretrained(tmp_path / "run")
    system.codec.save(tmp_path / "run")
    (tmp_path / "run/config.yaml").write_text("system: emoprepend\nvariant: tuned\ndecoding: {max_steps: 5}\n")
    return tmp_path / "run"


def test_a_run_is_evaluated_compared_and_scored_again(attune: Any, trained: Path, corpus: Path, tmp_path: Path) -> None:
    code, out, err = attune("evaluate", "run", "--data", "corpus", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["n"] == 7
    assert "text:normal-form|vocabulary:train-" in told["signature"]
    assert "|oov:0.0|decoding:greedy(max_steps=5)|" in told["signature"]
    code, again, _ = attune("score", "results/emoprepend-tuned/outputs.jsonl.gz", "--data", "corpus", "--json")
    assert code == 0
    assert json.loads(again) == told
    code, out, _ = attune("compare", "run", "results/emoprepend-tuned", "--out", "page.md")
    assert code == 0
    assert (tmp_path / "page.md").read_text().count("| emoprepend-tuned |") == 2
    assert attune("results")[0] == 0
    assert "**emoprepend-tuned**" in (tmp_path / "docs/RESULTS.md").read_text()


def test_an_audit_ends_with_one_where_there_is_a_leak(
    attune: Any, trained: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = attune("audit", "run", "--data", "corpus")
    assert code == 0, err
    assert out.endswith("emoprepend: no leak in 3 examples\n")

    from attune.generate import systems

    def leaking(folder: str) -> Any:
        system = opened(folder)
        honest = system.nll
        monkeypatch.setattr(system, "nll", lambda examples: [
            found._replace(nll=found.nll + len(example.emotion or "")) for found, example in zip(honest(examples), examples, strict=True)
        ])  # fmt: skip
        return system

    opened = systems.open_system
    monkeypatch.setattr(systems, "open_system", leaking)
    code, out, _ = attune("audit", "run", "--data", "corpus", "--json")
    told = json.loads(out)
    assert code == 1
    assert told["passed"] is False
    assert {check["name"] for check in told["checks"] if not check["passed"]} >= {"emotions dropped"}


@pytest.mark.parametrize("verb", ["evaluate", "audit"])
def test_what_is_no_run_is_said_in_one_line(attune: Any, corpus: Path, tmp_path: Path, verb: str) -> None:
    code, out, err = attune(verb, "nowhere", "--data", "corpus")
    assert (code, out) == (2, "")
    assert "no run at 'nowhere'" in err
    assert err.count("\n") == 1
    assert not (tmp_path / "results").exists()
