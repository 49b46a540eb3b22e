"""`attune setup` as a person meets it."""

from __future__ import annotations

from pathlib import Path

import pytest

from attune.cli.main import run as run_attune
from attune.parts import PARTS, Part, folder


@pytest.fixture(autouse=True)
def two_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty cache, no network, and a table of two parts, one of them already there."""
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ATTUNE_OFFLINE", "1")
    monkeypatch.setenv("COLUMNS", "200")
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    free = Part("free", "toy-free", "1.0", {"toy/free.csv": empty}, "MIT", True, "to be free", 1)
    closed = Part("closed", "toy-closed", "1.0", {"toy/closed.csv": empty}, "CC BY-NC 4.0", False, "to be closed", 2)
    monkeypatch.setattr(PARTS, "_entries", {"free": free, "closed": closed})
    folder(free).mkdir(parents=True)
    (folder(free) / "free.csv").touch()


def attune(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        run_attune(["setup", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_without_a_name_the_parts_are_listed_with_size_and_licence(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune() == 0
    shown = capsys.readouterr().out
    for word in ("free", "ready", "MIT", "to be free", "closed", "missing", "CC BY-NC 4.0", "2"):
        assert word in shown


def test_the_permissive_listing_leaves_the_others_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("--licence", "permissive") == 0
    shown = capsys.readouterr().out
    assert "to be free" in shown
    assert "to be closed" not in shown


def test_a_part_that_is_there_is_not_fetched_again(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("free") == 0
    assert capsys.readouterr().out == "free: already there (MIT)\n"


def test_permissive_refuses_a_named_part_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("free", "closed", "--licence", "permissive") == 2
    told = capsys.readouterr()
    assert told.err == "attune: error: not permissive, so not fetched: closed (CC BY-NC 4.0)\n"
    assert told.out == ""


def test_permissive_with_all_goes_on_and_names_what_it_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("--all", "--licence", "permissive") == 0
    shown = capsys.readouterr().out
    assert "closed: refused, its licence is not permissive: CC BY-NC 4.0" in shown
    assert "free: already there" in shown


def test_an_unknown_part_is_answered_with_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("fre") == 2
    assert "unknown part 'fre'; did you mean 'free'?" in capsys.readouterr().err


def test_what_cannot_be_fetched_is_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert attune("closed") == 2
    told = capsys.readouterr().err
    assert told.startswith("attune: error: part 'closed' is missing")
    assert told.count("\n") == 1
