from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

import attune
from attune.errors import MissingError
from attune.files import default_system
from attune.respond.opening import RECALLED_WITH, folder_of, licence_of, parts_of
from tests.respond.fakes import FakeSystem


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATTUNE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_what_a_first_start_fetches_is_what_the_system_and_recall_need(empty_cache: Path) -> None:
    plain, light = run(empty_cache / "plain"), run(empty_cache / "light", parts=["smollm2", "minilm", "no such part"])
    assert [part.name for part in parts_of(plain)] == list(RECALLED_WITH)
    assert [part.name for part in parts_of(light)] == ["smollm2", *RECALLED_WITH]
    (plain / "config.json").write_text("[]")
    for nothing in (plain, empty_cache / "nowhere", "emoprepned"):
        assert parts_of(nothing) == []


def test_a_name_means_its_own_run_then_the_default_one_then_the_newest(empty_cache: Path) -> None:
    assert folder_of("kemp") == Path("kemp")  # opening it says that it has to be trained
    for age, name in enumerate(("kemp-old", "kemp-new", "kempest"), 1):
        os.utime(run(empty_cache / "runs" / name), (age, age))
    assert folder_of("kemp") == Path("runs/kemp-new")
    run(empty_cache / "runs" / "kemp-default")
    assert folder_of("kemp") == Path("runs/kemp-default")
    run(empty_cache / "runs" / "kemp")
    assert folder_of("kemp") == Path("runs/kemp")
    run(empty_cache / "kemp")
    assert folder_of("kemp") == Path("kemp")
    with pytest.raises(MissingError, match="did you mean 'kemp'"):
        folder_of("kmep")


def test_the_licence_is_the_systems_own_word_or_its_datas() -> None:
    system = FakeSystem()
    assert licence_of(system) == "that of the data it was trained on"
    system.corpus = "empathetic_dialogues"
    assert licence_of(system) == "CC BY-NC 4.0"
    system.licence = "MIT"  # type: ignore[attr-defined]
    assert licence_of(system) == "MIT"


@pytest.mark.skipif(not (default_system() / "adapter.gguf").is_file(), reason="needs the default system's weights")
def test_the_default_system_answers() -> None:
    reply = attune.load(recall=None).reply(["My dog died last night."])
    assert reply.text
    assert reply.emotion in ("sad", "devastated")
