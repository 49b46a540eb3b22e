"""`attune doctor` finds what is wrong and names the command that mends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attune.cli import doctor
from attune.cli.main import run as run_attune


def attune(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run_attune(["doctor", *arguments])
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().out


def checks(shown: str) -> dict[str, dict[str, Any]]:
    return {check["name"]: check for check in json.loads(shown)["checks"]}


@pytest.fixture(autouse=True)
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with an empty cache, a run folder that looks whole, and no data."""
    run = tmp_path / "run"
    for name in doctor._LIGHT[1]:
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).touch()
    (run / "config.json").write_text('{"family": "light"}')
    monkeypatch.setenv("ATTUNE_SYSTEM", str(run))
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ATTUNE_DATA", raising=False)


def test_it_ends_with_0_when_chat_can_work(capsys) -> None:
    code, shown = attune(capsys)
    assert code == 0
    assert "attune chat works here" in shown


def test_it_ends_with_1_when_the_default_system_is_not_whole(capsys, tmp_path: Path) -> None:
    (tmp_path / "run" / "adapter.gguf").unlink()
    code, shown = attune(capsys, "--json")
    assert code == 1
    assert json.loads(shown)["ok"] is False
    assert checks(shown)["default system"]["state"] == "missing"
    assert "adapter.gguf" in checks(shown)["default system"]["found"]


def test_what_an_export_has_sums_of_has_to_be_there(capsys, tmp_path: Path) -> None:
    files = {"adapter.gguf": "…", "adapter-more.gguf": "…", "torch/more.safetensors": "…"}
    (tmp_path / "run" / "config.json").write_text(json.dumps({"family": "light", "files": files}))
    code, shown = attune(capsys, "--json")
    assert code == 1
    assert checks(shown)["default system"]["found"].startswith("no adapter-more.gguf in")


def test_a_run_in_torch_needs_torch_and_its_weights(capsys, tmp_path: Path) -> None:
    (tmp_path / "run" / "config.json").write_text("{}")
    code, shown = attune(capsys, "--json")
    assert code == 1
    assert "torch" in checks(shown)["chat engine"]["found"]
    assert "no model.safetensors in" in checks(shown)["default system"]["found"]


def test_it_ends_with_1_when_the_engine_is_not_installed(
    capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_LIGHT", (("no-such-package",), doctor._LIGHT[1]))
    code, shown = attune(capsys, "--json")
    assert code == 1
    assert "pip install" in checks(shown)["chat engine"]["mend"]
    (tmp_path / "run" / "config.json").write_text("{}")
    monkeypatch.setattr(doctor, "_TORCH", (("no-such-package",), doctor._TORCH[1]))
    monkeypatch.setenv("COLUMNS", "400")
    code, shown = attune(capsys)
    assert code == 1
    assert "[train]'" in shown
    assert "attune chat does not work here yet" in shown


def test_everything_missing_has_a_command_that_mends_it(capsys) -> None:
    _, shown = attune(capsys, "--json")
    found = checks(shown)
    assert found["part minilm"]["state"] == "missing"
    assert found["part minilm"]["mend"] == "attune setup minilm"
    for check in found.values():
        assert check["state"] == "ok" or check["mend"], check["name"]


def test_corpora_in_the_data_folder_are_named(capsys, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mine/train.csv", "mine/test.csv", "pictures/cat.png"):
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    monkeypatch.setenv("ATTUNE_DATA", str(tmp_path / "data"))
    _, shown = attune(capsys, "--json")
    assert checks(shown)["corpus mine"]["found"] == "train, test"
    assert "corpus pictures" not in checks(shown)


def test_a_nearly_full_disk_is_told(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil
    from collections import namedtuple

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(2, 1, 1))
    _, shown = attune(capsys, "--json")
    assert checks(shown)["disk"]["state"] == "low"
