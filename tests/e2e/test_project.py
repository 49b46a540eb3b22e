"""The project as a whole: what it declares, what it pins, and what its wheel holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import attune

TREE = Path(attune.__file__).parents[1]
PROJECT = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared() -> set[str]:
    """Every package that is named as a dependency, in the core or an extra."""
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    return {plain(re.match(r"[\w.-]+", line)[0]) for needs in lists for line in needs}  # type: ignore[index]


def test_every_direct_dependency_is_pinned_and_torch_comes_first() -> None:
    lines = (TREE / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", pin) for pin in pins)
    assert pins[0] == "torch==2.13.0"
    assert declared() - {plain(pin.split("==")[0]) for pin in pins} == set()


def test_the_core_install_has_no_torch() -> None:
    heavy = ("torch", "transformers", "accelerate", "scipy", "scikit-learn", "matplotlib")
    core = [re.split(r"[<>=!~ \[]", need)[0] for need in PROJECT["dependencies"]]
    assert set(core) & set(heavy) == set()


def test_the_files_a_visitor_looks_for_are_there() -> None:
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE", "LICENSE-WEIGHTS"):
        assert (TREE / name).stat().st_size > 500, name
    assert "Apache License" in (TREE / "LICENSE").read_text(encoding="utf-8")
    assert "CC BY-NC 4.0" in (TREE / "LICENSE-WEIGHTS").read_text(encoding="utf-8")


def test_every_variable_that_is_read_is_explained() -> None:
    read = {
        name for path in (TREE / "attune").rglob("*.py") for name in re.findall(r'"(ATTUNE_\w+)"', path.read_text())
    }
    serving = (TREE / "docs" / "guide" / "serving.md").read_text(encoding="utf-8")
    of_a_server = set(re.findall(r"`(ATTUNE_\w+)", serving.partition("## In containers")[2]))
    settings = set(re.findall(r"`(ATTUNE_\w+)", (TREE / "README.md").read_text(encoding="utf-8")))
    assert read - of_a_server - settings == set()
    assert {"ATTUNE_SYSTEM", "ATTUNE_COUNTRY", "ATTUNE_HELPLINES"} <= settings & of_a_server


def test_the_changelog_begins_with_this_version_or_what_is_to_come() -> None:
    first = re.search(r"^## \[?([\w.]+)", (TREE / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert first is not None
    assert first[1] in (attune.__version__, "Unreleased")


@pytest.mark.parametrize("target", ["chat", "test", "test-slow", "format", "lint", "type", "results", "bench", "clean"])
def test_make_has_the_target(target: str) -> None:
    done = subprocess.run(["make", "-n", target], cwd=TREE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ci_runs_both_kinds_of_tests() -> None:
    script = (TREE / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^make .*$", script, re.MULTILINE) == ["make test", "make test-slow"]
    assert subprocess.run(["bash", "-n", str(TREE / ".ci" / "run")]).returncode == 0


@pytest.mark.slow
def test_the_wheel_holds_the_code_the_recipes_and_the_licences(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(
        TREE, source, ignore=shutil.ignore_patterns(".*", "runs", "results", "build", "*.egg-info", "tests")
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(tmp_path),
        ".",
    ]
    subprocess.run(command, cwd=source, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("attune_dialogue-*.whl")
    held = set(zipfile.ZipFile(wheel).namelist())
    code = {str(path.relative_to(TREE)) for path in (TREE / "attune").rglob("*.py")}
    recipes = {str(path.relative_to(TREE)) for path in (TREE / "attune" / "recipes").glob("*.yaml")}
    assert code - held == set()
    assert recipes - held == set()
    assert any(name.endswith("licenses/LICENSE-WEIGHTS") for name in held)
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in held)
