from __future__ import annotations

import json
from pathlib import Path

import pytest

from attune.cli.main import run
from attune.knowledge.build import build


def attune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `attune stats`."""
    with pytest.raises(SystemExit) as done:
        run(["stats", *arguments])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("index")
    rows = ("relation\thead\ttail\tscore\tfreq\tweight", "IsA\tdog\tsorry\t1\t5\t1.0", "IsA\tproud\trace\t1\t5\t1.0\n")
    (folder / "cn4.tsv").write_text("\n".join(rows))
    build("conceptnet4", folder / "index", folder / "cn4.tsv")
    return str(folder / "index")


def test_emotions_are_printed(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    code, out, err = attune(capsys, "emotions", "--data", str(corpus))
    assert (code, err) == (0, "")
    assert "48 dialogues" in out
    assert "25.0" in out
    assert "race" in out


def test_emotions_are_one_json_object_of_the_split_asked_for(capsys: pytest.CaptureFixture[str], corpus: Path) -> None:
    code, out, err = attune(capsys, "emotions", "--data", str(corpus), "--split", "test", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["dialogues"] == 12


def test_knowledge_is_printed_and_counted_over_all_splits(
    capsys: pytest.CaptureFixture[str], corpus: Path, index: str
) -> None:
    code, out, err = attune(capsys, "knowledge", "--data", str(corpus), "--index", index)
    assert (code, err) == (0, "")
    assert "one hop from it" in out
    code, out, _ = attune(capsys, "knowledge", "--data", str(corpus), "--index", index, "--json")
    found = json.loads(out)
    assert found["responses"] + found["responses_without_words"] == 2 * (48 + 12 + 12)
    assert found["words"]["one_hop"] > 0


@pytest.mark.parametrize("verb", ["emotions", "knowledge"])
def test_a_page_is_written(
    capsys: pytest.CaptureFixture[str], corpus: Path, tmp_path: Path, index: str, verb: str
) -> None:
    page = tmp_path / "page.html"
    more = ["--index", index] if verb == "knowledge" else []
    code, out, _ = attune(capsys, verb, "--data", str(corpus), "--out", str(page), *more)
    assert (code, out) == (0, f"written to {page}\n")
    assert page.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["emotions"], "Missing option '--data'"),
        (["emotions", "--data", "nowhere"], "nowhere"),
        (["knowledge", "--data", "nowhere"], "nowhere"),
        (["knowledge", "--data", "{corpus}", "--split", "tst"], "did you mean 'test'"),
        (["knowledge", "--data", "{corpus}", "--index", "nowhere"], "no concept index in"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], corpus: Path, arguments: list[str], reason: str
) -> None:
    code, out, err = attune(capsys, *(argument.replace("{corpus}", str(corpus)) for argument in arguments))
    assert (code, out) == (2, "")
    assert reason in err
    assert err.count("\n") == 1
