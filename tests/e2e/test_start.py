"""The first and the later starts: what the default system needs, and the program that times them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import attune

TREE = Path(attune.__file__).parents[1]
TALK = """
import sys
from attune.cli.main import run
try:
    run(["chat", "--plain"])
finally:
    print("heavy:", sorted({"torch", "transformers", "scipy", "sklearn"} & sys.modules.keys()), file=sys.stderr)
"""
MAKEFILE = """chat:
\t@test ! -e "$$XDG_CACHE_HOME" && test -z "$$PYTHONPATH"
\t@read -p "you: " said && echo "I heard: $$said" && read -p "you: " said && test "$$said" = /quit
"""


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_default_system_answers_without_torch(default_parts: None) -> None:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("ATTUNE_SYSTEM", "ATTUNE_ENGINE_URL")
    }
    done = subprocess.run(
        [sys.executable, "-c", TALK],
        input="My old dog died last night.\n",
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 1
    assert done.stdout.strip()
    assert done.stderr.splitlines()[-1] == "heavy: []"


@pytest.fixture
def program() -> Any:
    spec = importlib.util.spec_from_file_location("start", TREE / "benchmarks" / "start.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def git(folder: Path, *arguments: str) -> None:
    who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
    subprocess.run(["git", *who, *arguments], cwd=folder, check=True, capture_output=True)


def test_a_fresh_start_is_timed_in_a_clone_with_empty_caches(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "Makefile").write_text("SHELL := bash\n" + MAKEFILE)
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "Makefile")
    git(tmp_path, "commit", "-q", "-m", "A chat")
    monkeypatch.setattr(program, "TREE", tmp_path)
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    found = program.fresh()
    assert set(program.TARGETS) - set(found) == {"second start"}
    assert 0 < found["fresh, to the prompt"] < found["fresh, to the first reply"] < 60


def test_a_start_that_fails_says_what_was_on_the_screen(program: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match=r"(?s)'bash -c .*' shows no prompt:.*no package index"):
        program.start(["bash", "-c", "echo no package index"], tmp_path, os.environ)
