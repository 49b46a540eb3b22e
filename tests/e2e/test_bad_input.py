"""Bad input gets one clear line and an exit code that is not 0, and leaves nothing half-written behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from attune.cli.main import run

HEADER = "conv_id,utterance_idx,context,prompt,speaker_idx,utterance,selfeval,tags\n"


def empty(folder: Path) -> Path:
    file = folder / "empty.csv"
    file.write_text("")
    return file


def wrong_columns(folder: Path) -> Path:
    file = folder / "wrong.csv"
    file.write_text("a;b;c\n1;2;3\n")
    return file


def binary(folder: Path) -> Path:
    file = folder / "binary.jsonl"
    file.write_bytes(bytes(range(256)) * 50)
    return file


def endless_line(folder: Path) -> Path:
    file = folder / "endless.csv"
    with file.open("w") as out:
        out.write(HEADER + "c,1,sad,s,0,")
        for _ in range(100):
            out.write("x" * 1_000_000)
    return file


def absent(folder: Path) -> Path:
    return folder / "nowhere.csv"


FILES: list[Callable[[Path], Path]] = [empty, wrong_columns, binary, endless_line, absent]


def fails(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """Run the command; return its one line of complaint."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code not in (0, None)
    said = capsys.readouterr().err.strip().splitlines()
    assert "Traceback" not in "".join(said)
    complaints = [line for line in said if line.startswith("attune: error: ")]
    assert len(complaints) == 1, said
    return complaints[0]


@pytest.mark.parametrize("make", FILES)
def test_a_corpus_that_is_none_is_refused_by_check_train_and_score(
    make: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    bad = make(tmp_path / "in")
    run_folder = tmp_path / "run"
    assert bad.name in fails(["data", "check", str(bad)], capsys)
    assert bad.name in fails(["score", str(bad)], capsys)
    fails(["train", "transformer", "--data", str(bad), "--out", str(run_folder)], capsys)
    left = [path for path in run_folder.rglob("*") if path.is_file()] if run_folder.exists() else []
    assert not left


def test_unknown_names_get_the_nearest_one(tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean 'transformer'" in fails(["train", "transfromer", "--data", str(corpus)], capsys)
    assert "did you mean 'tuned'" in fails(["train", "transformer", "--variant", "tunde"], capsys)
    assert "did you mean 'evaluate'" in fails(["evalaute", "x"], capsys)
    assert "did you mean 'systems'" in fails(["ls", "sistems"], capsys)
    assert "no run at" in fails(["evaluate", str(tmp_path / "no"), "--data", str(corpus)], capsys)
    assert "no run at" in fails(["reply", "hello", "--system", str(tmp_path)], capsys)


def test_an_output_that_cannot_be_written_is_said_before_the_work(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("mine")
    out = blocked / "run"  # below a file: not even root can write there
    fails(["train", "transformer", "--data", str(corpus), "--out", str(out)], capsys)
    line = tmp_path / "outputs.jsonl"
    line.write_text(json.dumps({"prediction": "a b", "reference": "a c"}) + "\n")
    assert blocked.read_text() == "mine"


def test_replies_for_a_file_of_good_and_bad_lines_keep_what_is_good(
    tmp_path: Path, corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = ["text.vectors=null", "model.d_model=16", "model.ffn=16", "training.epochs=1"]
    with pytest.raises(SystemExit) as ended:
        run(
            ["train", "emoprepend", "--data", str(corpus), "--out", str(tmp_path / "run")]
            + [word for item in sets for word in ("--set", item)]
        )
    assert ended.value.code == 0
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"turns": ["My dog died."]}\nnot json\n{"turns": []}\n{"turns": ["I won!"]}\n')
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run(["reply", "--file", str(asked), "--system", str(tmp_path / "run")])
    assert ended.value.code == 1
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [("text" in row, "error" in row) for row in rows] == [
        (True, False),
        (False, True),
        (False, True),
        (True, False),
    ]
    assert "asked.jsonl:2" in rows[1]["error"]
