from __future__ import annotations

import json
from pathlib import Path

import pytest

from attune.cli.main import run


def attune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors of `attune explain`."""
    with pytest.raises(SystemExit) as done:
        run(["explain", *arguments])
    captured = capsys.readouterr()
    return int(done.value.code or 0), captured.out, captured.err


def test_a_text_is_explained_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = attune(capsys, "I fear it must be cancer.")
    assert (code, err) == (0, "")
    assert "Emotion words" in out
    assert "Emotional context graph" in out


def test_several_texts_are_turns(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = attune(capsys, "I am sad.", "Why?", "--json")
    assert code == 0
    assert [turn["role"] for turn in json.loads(out)["turns"]] == ["speaker", "listener"]


def test_a_dialogue_of_a_file_is_explained_and_written_as_a_page(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    chat, page = tmp_path / "chat.json", tmp_path / "new" / "page.html"
    chat.write_text('[{"role": "user", "content": "I lost my dog."}, {"role": "assistant", "content": "Oh no."}]')
    code, out, err = attune(capsys, "--dialogue", str(chat), "--out", str(page))
    assert (code, out, err) == (0, f"written to {page}\n", "")
    assert "I <mark" in page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_a_page_and_json_can_be_had_at_once(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = attune(capsys, "I am sad.", "--json", "--out", str(tmp_path / "page.html"))
    assert code == 0
    assert json.loads(out)["version"] == 1
    assert (tmp_path / "page.html").is_file()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "give either a text or --dialogue FILE"),
        (["hello", "--dialogue", "x.json"], "give either a text or --dialogue FILE"),
        ([""], "no text to explain"),
        (["--dialogue", "nowhere.json"], "no file at nowhere.json"),
        (["sad", "--index", "nowhere"], "no concept index in"),
        (["sad", "--vad", "waringer"], "did you mean 'warriner'"),
    ],
)
def test_mistakes_are_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], reason: str) -> None:
    code, out, err = attune(capsys, *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("attune: error: ")
    assert reason in err
    assert err.count("\n") == 1


def test_a_page_that_cannot_be_written_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = attune(capsys, "sad", "--out", str(tmp_path))
    assert code == 2
    assert f"cannot write {tmp_path}" in err
