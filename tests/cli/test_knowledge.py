from __future__ import annotations

import json
from pathlib import Path

import pytest

from attune.cli.main import run
from attune.knowledge import annotate as annotating
from attune.knowledge.index import ConceptIndex

ROWS = (
    "relation\thead\ttail\tscore\tfreq\tweight\n"
    "IsA\tpanic\tfear\t1\t5\t0.5\n"
    "Causes\tfear\tscream\t3\t5\t1.0\n"
    "CapableOf\tfear\tfly\t1\t-5\t-0.5\n"
)


def attune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of a command."""
    with pytest.raises(SystemExit) as done:
        run(["knowledge", *arguments])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


@pytest.fixture
def index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    (tmp_path / "rows.tsv").write_text(ROWS)
    folder = str(tmp_path / "index")
    code, out, _ = attune(capsys, "build", "conceptnet4", "--out", folder, "--file", str(tmp_path / "rows.tsv"))
    assert (code, out) == (0, f"{folder}: 2 assertions of 3 concepts from 4 lines (conceptnet4, CC BY-SA)\n")
    return folder


def test_lookup_shows_statements_as_they_are_made(capsys: pytest.CaptureFixture[str], index: str) -> None:
    code, out, _ = attune(capsys, "lookup", "Fears", "--index", index)
    assert code == 0
    assert [" ".join(line.split()) for line in out.splitlines()[2:]] == [
        "fear Causes scream 1.000 0.500",
        "panic IsA fear 0.500 0.250",
    ]


def test_lookup_takes_one_direction_and_prints_json(capsys: pytest.CaptureFixture[str], index: str) -> None:
    code, out, _ = attune(capsys, "lookup", "fear", "--index", index, "--direction", "in", "--json")
    found = json.loads(out)
    assert (code, found["concept"], found["count"]) == (0, "fear", 1)
    assert found["neighbours"] == [
        {"relation": "IsA", "concept": "panic", "weight": 0.5, "scaled": 0.25, "forward": False}
    ]


def test_lookup_of_an_unknown_word_offers_near_ones(capsys: pytest.CaptureFixture[str], index: str) -> None:
    assert attune(capsys, "lookup", "feer", "--index", index) == (
        2,
        "",
        "attune: error: 'feer' is not in conceptnet4; did you mean 'fear'?\n",
    )


def test_info_says_what_an_index_holds(capsys: pytest.CaptureFixture[str], index: str) -> None:
    code, out, _ = attune(capsys, "info", index, "--json")
    meta = json.loads(out)
    assert (code, meta["assertions"], meta["relations"]) == (0, 2, ["IsA", "Causes"])
    code, out, _ = attune(capsys, "info", index)
    assert "CC BY-SA" in out
    assert "2 relations" in out


def test_verify_finds_damage(capsys: pytest.CaptureFixture[str], index: str) -> None:
    code, out, _ = attune(capsys, "verify", index)
    assert (code, "whole" in out) == (0, True)
    file = Path(index) / "edge_weights.bin"
    file.write_bytes(b"\0" * file.stat().st_size)
    code, _, err = attune(capsys, "verify", index)
    assert code == 2
    assert "edge_weights.bin: damaged" in err


def test_a_bad_file_leaves_the_index_as_it_was(capsys: pytest.CaptureFixture[str], index: str, tmp_path: Path) -> None:
    (tmp_path / "bad.tsv").write_text(ROWS + "broken\n")
    code, _, err = attune(capsys, "build", "conceptnet4", "--out", index, "--file", str(tmp_path / "bad.tsv"))
    assert code == 2
    assert err.endswith(
        "bad.tsv:5: expected 6 tab-separated fields (relation, head, tail, score, freq, weight), found b'broken'\n"
    )
    assert "fear" in ConceptIndex(index)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["build", "conceptnet6", "--out", "x"], "did you mean 'conceptnet5'?"),
        (["build", "conceptnet5", "--out", "x"], "give its path with --file, or use conceptnet4, the default"),
        (["build", "conceptnet5", "--out", "x", "--file", "nowhere.gz"], "there is no file"),
        (["info", "nowhere"], "looked for meta.json"),
        (["lookup", "fear", "--index", "nowhere"], "without --index the ConceptNet 4 in Attune serves"),
    ],
)
def test_what_is_missing_is_named_with_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, err = attune(capsys, *arguments)
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_annotate_says_how_much_it_did(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[object] = []

    def annotate(data: Path, out: Path, settings: object, **more: object) -> annotating.Progress:
        asked.extend([data, settings, more["splits"], more["workers"]])
        return annotating.Progress(3, 3, 4)

    monkeypatch.setattr(annotating, "annotate", annotate)
    code, out, _ = attune(capsys, "annotate", "--data", "ED", "--out", "X", "--split", "test", "--lexicon", "nrc-vad")
    assert (code, out) == (0, "X: 3 contexts annotated in 0 s, 4 were there already\n")
    assert asked == [Path("ED"), annotating.AnnotateSettings(lexicon="nrc-vad"), ["test"], 2]
