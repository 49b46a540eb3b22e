"""`attune doctor`: what is installed, found and missing, and the command that mends it."""

from __future__ import annotations

import json
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import attune
from attune.cli.main import extras, install_command
from attune.dialogue.readers import splits
from attune.errors import AttuneError
from attune.files import cache_dir, data_dir, default_system
from attune.parts import PARTS, path, state

# What talking needs: packages, and files of the system. An export says that it is light.
_LIGHT = (
    ("xllamacpp", "onnxruntime"),
    ("adapter.gguf", "perceiver/model.safetensors", "decoder/tokenizer.json", "perceiver/encoder/tokenizer.json"),
)
_TORCH = ("torch", "transformers"), ("model.safetensors",)


@dataclass(frozen=True)
class Check:
    """One thing looked at. `mend` is the command (or sentence) that puts it right."""

    name: str
    state: Literal["ok", "missing", "damaged", "low"]
    found: str
    mend: str = ""
    needed: bool = False  # chatting does not work without it


def main(as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False) -> None:
    """Say what is installed, found and missing, and how to mend it. Exit code 0 if chat can work, else 1."""
    checks = list(examine())
    ok = all(check.state == "ok" for check in checks if check.needed)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _print(checks, ok)
    raise typer.Exit(0 if ok else 1)


def examine() -> Iterator[Check]:
    """All checks, in the order a person would mend them."""
    yield Check("Python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield Check("attune", "ok", attune.__version__)
    yield from _extras()
    yield from _chat()
    yield from _parts()
    yield from _data()
    yield _disk()


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _extras() -> Iterator[Check]:
    for extra, packages in extras().items():
        missing = [package for package in packages if _version(package) is None]
        if missing:
            yield Check(f"extra {extra}", "missing", f"without {', '.join(missing)}", install_command(extra))
        else:
            yield Check(f"extra {extra}", "ok", f"{len(packages)} packages")
    if version := _version("torch"):
        import torch

        yield Check("torch", "ok", f"{version}, {torch.get_num_threads()} threads")


def _chat() -> Iterator[Check]:
    folder = default_system()
    try:
        config = json.loads((folder / "config.json").read_text())
        light, kept = config.get("family") == "light", [*config.get("files", ())]
    except (OSError, ValueError, AttributeError):
        light, kept = True, []
    packages, files = _LIGHT if light else _TORCH
    files = tuple(dict.fromkeys([*files, *(name for name in kept if not name.startswith("torch/"))]))
    missing = [package for package in packages if _version(package) is None]
    yield Check(
        "chat engine",
        "missing" if missing else "ok",
        f"without {', '.join(missing)}" if missing else ", ".join(packages),
        install_command(None if light else "train") if missing else "",
        needed=True,
    )
    absent = [name for name in ("config.json", *files) if not (folder / name).is_file()]
    yield Check(
        "default system",
        "missing" if absent else "ok",
        f"no {', '.join(absent)} in {folder}" if absent else str(folder),
        "name a run of your own: attune chat RUN, or set ATTUNE_SYSTEM to its folder" if absent else "",
        needed=True,
    )


def _parts() -> Iterator[Check]:
    for part in PARTS.values():
        found = state(part, thorough=True)
        if found == "ready":
            yield Check(f"part {part.name}", "ok", str(path(part)))
        else:
            yield Check(f"part {part.name}", found, f"{part.why} ({part.licence})", f"attune setup {part.name}")


def _data() -> Iterator[Check]:
    folder = data_dir()
    if folder is None:
        yield Check("data", "missing", "ATTUNE_DATA names no folder", "export ATTUNE_DATA=FOLDER, or give --data DIR")
        return
    yield Check("data", "ok", str(folder))
    for corpus in sorted(child for child in folder.iterdir() if child.is_dir()):
        try:
            found = splits(corpus)
        except AttuneError:  # not a corpus of dialogues
            continue
        yield Check(f"corpus {corpus.name}", "ok", ", ".join(found))


def _disk() -> Check:
    folder = cache_dir()
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    free = shutil.disk_usage(there).free / 1e9
    mend = f"free some space on the disk of {folder}, or set ATTUNE_CACHE to another"
    return Check("disk", "ok" if free >= 1 else "low", f"{free:.1f} GB free for {folder}", "" if free >= 1 else mend)


def _print(checks: list[Check], ok: bool) -> None:
    console = Console()
    table = Table(box=None)
    for column in ("", "state", "found", "to mend it"):
        table.add_column(column, overflow="fold")
    colours = {"ok": "green", "missing": "yellow", "damaged": "red", "low": "yellow"}
    for check in checks:
        colour = "red" if check.needed and check.state != "ok" else colours[check.state]
        table.add_row(check.name, f"[{colour}]{check.state}[/]", escape(check.found), escape(check.mend))
    console.print(table)
    console.print("[green]attune chat works here.[/]" if ok else "[red]attune chat does not work here yet.[/]")
