"""The order of the packages, and what may not be in the tree (DESIGN 1, 3.7, 3.8)."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import attune

ORDER = [
    "parts",
    "dialogue",
    "emotion",
    "knowledge",
    "models",
    "retrieve",
    "generate",
    "train",
    "evaluate",
    "respond",
    "curate",
    "web",
    "serve",
    "study",
    "cli",
]
SHARED = ("errors", "registry", "files")  # modules for all
NO_CODE = ("recipes", "data")  # folders without code
CORE = ("parts", "dialogue", "emotion", "knowledge", "cli", *SHARED)  # the install without torch
HEAVY = {"torch", "transformers", "accelerate", "scipy", "sklearn", "matplotlib", "tensorboard", "pyarrow", "sacrebleu"}

ROOT = Path(attune.__file__).parent
TREE = ROOT.parent
MODULES = sorted(ROOT.rglob("*.py"))


def name_of(path: Path) -> str:
    """`attune/emotion/taxonomy.py` → `emotion.taxonomy`."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path, *, only_at_import: bool = False) -> Iterator[str]:
    """The full names a module imports; with `only_at_import`, those that importing it brings in."""
    top = ast.parse(path.read_text(encoding="utf-8"), str(path))
    package = path.relative_to(TREE).parent.parts
    waiting: list[ast.AST] = [top]
    while waiting:
        node = waiting.pop()
        if only_at_import and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _for_types_only(node)):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            yield from (f"{module}.{alias.name}" for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def _for_types_only(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def ours(path: Path) -> Iterator[str]:
    """The packages and modules directly below `attune` that a module imports."""
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "attune" and len(parts) > 1:
            yield parts[1]


def test_every_package_is_in_the_list() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages <= set(ORDER)
    loose = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"} - set(ORDER)
    assert loose <= set(NO_CODE)
    assert {path.stem for path in ROOT.glob("*.py")} <= {"__init__", *SHARED}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_package_imports_only_from_those_before_it(path: Path) -> None:
    own = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if own == "__init__":
        return  # the front door may name anything; it is lazy (below)
    allowed = set(SHARED) | {"__version__"} | (set(ORDER[: ORDER.index(own) + 1]) if own in ORDER else set())
    assert sorted(set(ours(path)) - allowed) == []


@pytest.mark.parametrize(
    "path", [path for path in MODULES if name_of(path).split(".")[0] in (*CORE, "attune")], ids=name_of
)
def test_the_core_imports_nothing_heavy(path: Path) -> None:
    assert sorted({name.split(".")[0] for name in imports(path, only_at_import=True)} & HEAVY) == []


def test_importing_every_core_package_brings_in_no_torch() -> None:
    names = [f"attune.{name_of(path)}" for path in MODULES if name_of(path).split(".")[0] in CORE[:4]]
    code = f"import importlib, sys\nfor name in {names!r}: importlib.import_module(name)\nprint('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def third_party(path: Path, *, only_at_import: bool) -> set[str]:
    names = {name.split(".")[0] for name in imports(path, only_at_import=only_at_import)}
    return names - set(sys.stdlib_module_names) - {"attune"}


def declared(*extras: str) -> set[str]:
    """The modules that the core install, and the extras, bring by name."""
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    names = {re.split(r"[<>=!~ \[]", need)[0].lower() for needs in lists for need in needs}
    return {{"pyyaml": "yaml", "scikit-learn": "sklearn"}.get(name, name.replace("-", "_")) for name in names}


def test_what_the_core_imports_is_declared_as_core() -> None:
    core = declared()
    core_modules = [path for path in MODULES if name_of(path).split(".")[0] in CORE]
    wanting = {
        name_of(path): names for path in core_modules if (names := third_party(path, only_at_import=True) - core)
    }
    assert wanting == {}


def test_every_import_is_declared_in_some_extra() -> None:
    project = tomllib.loads((TREE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    known = declared(*(extra for extra in project["optional-dependencies"] if extra != "dev"))
    wanting = {name_of(path): names for path in MODULES if (names := third_party(path, only_at_import=False) - known)}
    assert wanting == {}


def tracked() -> list[Path]:
    """Every text file that belongs to the project; a vocabulary is no text of ours."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=TREE, capture_output=True, text=True)
    if listed.returncode == 0:
        found = [TREE / name for name in listed.stdout.split("\0") if name]
    else:  # an archive of the sources
        found = [path for path in TREE.rglob("*") if ".venv" not in path.parts]
    binary = {".safetensors", ".gguf", ".gz", ".png", ".onnx"}
    return [path for path in found if path.is_file() and path.suffix not in binary and path.name != "tokenizer.json"]


def test_no_source_file_is_longer_than_500_lines() -> None:
    long = {
        str(path.relative_to(TREE)): lines
        for path in tracked()
        if path.suffix == ".py" and (lines := len(path.read_text(encoding="utf-8").splitlines())) > 500
    }
    assert long == {}


# Written so that this file does not find itself.
FORBIDDEN = {
    "a path of one machine": r"(?<![\w.])/(?:work|root|home|farm|opt|Users)/" + r"\w",
    "an index or registry": r"(?:index-url|find-links)"
    + r"[= ]|registry"
    + r"=http|https?://[\w.]*(?:pypi|pythonhosted)",
    "something unfinished": r"\b(?:TO" + r"DO|FIX" + r"ME)\b",
}


@pytest.mark.parametrize("what", FORBIDDEN)
def test_the_tree_is_free_of(what: str) -> None:
    pattern = re.compile(FORBIDDEN[what])
    found = [
        f"{path.relative_to(TREE)}:{number}: {line.strip()[:100]}"
        for path in tracked()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]
    assert found == []


def test_there_is_no_heap_of_helpers() -> None:
    assert [str(path) for path in MODULES if path.stem in ("utils", "util", "helpers", "misc", "common")] == []
