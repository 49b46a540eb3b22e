"""`attune serve` with its keys, exports and erasures, as a person types it."""

from __future__ import annotations

import json
from dataclasses import asdict
from inspect import signature
from pathlib import Path

import pytest

from attune.cli.main import run
from attune.cli.serve import main
from attune.dialogue.types import Turn
from attune.errors import SettingsError
from attune.generate.saying import Tone
from attune.serve.settings import ServeSettings
from attune.serve.store import Opinion, Said, Store
from attune.web.keys import KeyFile

TURNS = [Turn("speaker", "My dog died.")]


def attune(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run(["serve", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path}/store.db"
    store = Store(url)
    for id, user in (("a" * 16, "ann"), ("b" * 16, "bob")):
        store.keep(Said(id, TURNS, "Oh no.", f"r-{user}", {}, "kemp", user=user))
    store.add_feedback(Opinion(TURNS, "Oh no.", "down", "I am so sorry.", "r-ann", "a" * 16, "kemp", user="ann"))
    store.close()
    return url


def test_keys_are_added_listed_and_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "keys.txt")
    assert attune("keys", "add", "phone", "--keys", file) == 0
    secret = capsys.readouterr().out.strip()
    assert KeyFile(file).owner(secret) == "phone"
    assert attune("keys", "list", "--keys", file) == 0
    assert capsys.readouterr().out.startswith("phone\t20")
    assert attune("keys", "remove", "phone", "--keys", file) == 0
    assert attune("keys", "remove", "phone", "--keys", file) == 2
    assert capsys.readouterr().err == "attune: error: unknown key 'phone'. Available: none\n"


def test_a_tone_is_given_to_every_system_that_is_served(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened: list[tuple[str, Tone]] = []

    def load(name: str, tone: Tone, country: str | None) -> None:
        opened.append((name, tone))
        raise SettingsError("enough is known")

    monkeypatch.setattr("attune.respond.agent.load", load)
    monkeypatch.setattr("attune.respond.preparing.prepare", lambda *_: None)
    assert attune("--port", "0", "--name", "Robin", "--warmth", "1", "--brevity", "0.8") == 2
    assert opened == [("default", Tone("Robin", 1.0, 0.8))]
    assert attune("--warmth", "7") == 2
    assert "warmth must be from 0 to 1" in capsys.readouterr().err


def test_conversations_feedback_and_training_data_are_exported(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"

    def exported(*options: str) -> list[dict]:
        assert attune("export", "--store", url, "--out", str(out), *options) == 0
        return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]

    assert [row["user"] for row in exported()] == ["ann", "bob"]
    assert [row["id"] for row in exported("--user", "bob")] == ["b" * 16]
    (opinion,) = exported("--what", "feedback")
    assert (opinion["better"], opinion["system"]) == ("I am so sorry.", "kemp")
    (dialogue,) = exported("--what", "training")
    assert [turn["text"] for turn in dialogue["turns"]] == ["My dog died.", "I am so sorry."]
    assert "1 written" in capsys.readouterr().err


def test_a_user_is_erased_and_one_must_say_who(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("erase", "--store", url) == 2
    assert attune("erase", "--store", url, "--user", "ann", "--feedback", "feedback-1") == 2
    assert capsys.readouterr().err.count("say what to erase") == 2
    assert attune("erase", "--store", url, "--user", "ann") == 0
    assert capsys.readouterr().out == "erased: 1 conversations, 1 pieces of feedback\n"
    assert attune("erase", "--store", url, "--conversation", "b" * 16) == 0
    assert list(Store(url).export()) == []


def test_each_setting_but_the_sizes_is_an_option_with_the_same_default() -> None:
    options = {name: option.default for name, option in signature(main).parameters.items()}
    options |= {"cors": options["cors"] or (), "max_wait": options["max_wait"] / 1000}
    settings = asdict(ServeSettings())
    assert set(settings) - set(options) == {"max_body", "max_chars", "max_messages"}
    assert {name: options[name] for name in settings if name in options}.items() <= settings.items()


def test_one_piece_of_feedback_is_erased_by_its_id(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    (opinion,) = Store(url).export_feedback()
    assert attune("erase", "--store", url, "--feedback", opinion["id"]) == 0
    assert capsys.readouterr().out == "erased: 0 conversations, 1 pieces of feedback\n"
    assert list(Store(url).export_feedback()) == []
    assert len(list(Store(url).export())) == 2


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--port", "70000"], "less than or equal to 65535"),
        (["--queue", "0"], "queue must be at least 1, not 0"),
        (["--port", "0", "--keys", "no-such-file"], "no keys in no-such-file"),
        (["--port", "0", "--store", "mysql://x/y"], "cannot keep a store with 'mysql'"),
        (["export", "--store", "sqlite:////nowhere/at/all.db"], "no folder"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert attune(*arguments) == 2
    shown = capsys.readouterr().err
    assert why in shown
    assert shown.count("\n") == 1
