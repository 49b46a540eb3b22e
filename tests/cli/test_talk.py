"""`attune chat`, `attune reply` and `attune ls`, as a person and a script use them."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from attune.cli.main import run
from attune.dialogue.types import Dialogue
from tests.systems import small_system


@pytest.fixture
def folder(dialogues: list[Dialogue], tmp_path: Path) -> Path:
    system = small_system("emoprepend", dialogues)
    system.model.save_pretrained(tmp_path / "run")
    system.codec.save(tmp_path / "run")
    return tmp_path / "run"


def succeed(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code in (0, None)


def test_a_pipe_gets_one_reply_a_line_and_commands_are_not_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        sys, "stdin", io.StringIO("My old dog died on Monday.\n\n/new\n/help\nI am alone.\n/quit\nnot read\n")
    )
    succeed(["chat", "--plain", "--system", str(folder)])
    replies = capsys.readouterr().out.splitlines()
    assert len(replies) == 2
    assert all(replies)


def test_an_empty_line_is_skipped_and_the_end_of_input_ends_the_chat(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("\nHello\n" + "x" * 20_000 + "\nI am alone."))
    succeed(["chat", "--plain", "--system", str(folder)])
    caught = capsys.readouterr()
    assert len(caught.out.splitlines()) == 2
    assert "20,000 characters" in caught.err


def test_a_script_gets_an_object_and_the_same_seed_the_same_reply(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["reply", "I hear steps upstairs.", "--json", "--system", str(folder)]
    succeed(asked)
    first = json.loads(capsys.readouterr().out)
    succeed(asked)
    assert json.loads(capsys.readouterr().out) == first
    assert first["system"] == "emoprepend"
    assert first["emotion"] == next(iter(first["emotions"]))


def test_everything_that_is_registered_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    succeed(["ls", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {"transformer", "emoprepend", "ed-generative"} <= set(found["systems"])
    assert "emoprepend --variant prepend-3" in found["recipes"]
    assert all(found.values())
