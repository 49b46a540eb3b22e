"""Finding what an agent is made of: the folder of a system, its licence, and what has to be fetched before it can talk."""

from __future__ import annotations

import difflib
import json
import os
from pathlib import Path
from typing import Any

from attune.errors import MissingError
from attune.files import default_system
from attune.generate.engines import ENGINES
from attune.generate.systems import System, open_system
from attune.models import SYSTEMS
from attune.parts import PARTS, Part, state

REMOTE = "remote"  # the default system perceives and decides, and a server says the replies
RUNS = Path("runs")  # where `attune train` leaves its folders
RECALLED_WITH = ("minilm", "vad-warriner", "wordvectors")  # the parts behind CKECE


def open_named(system: str | Path) -> System:
    """The system of a name or folder. With `ATTUNE_ENGINE_URL`, the default one speaks through that server, as `remote` does."""
    opened = open_system(folder_of(system))
    if str(system) == REMOTE or (str(system) == "default" and os.environ.get("ATTUNE_ENGINE_URL")):
        speaking: System = ENGINES[REMOTE].from_environment(opened)
        return speaking
    return opened


def folder_of(system: str | Path) -> Path:
    """The folder of a system: a run folder, `default`, or the name of a registered system that was trained here.

    Of several runs of one name (`runs/kemp`, `runs/kemp-default`, …) the first of these two is taken, else the newest.
    """
    name = str(system)
    path = default_system() if name in ("default", REMOTE) else Path(name).expanduser()
    if (path / "config.json").is_file():
        return path
    if name in SYSTEMS:
        runs = [file.parent for file in RUNS.glob(f"{name}*/config.json")]
        named = [RUNS / name, RUNS / f"{name}-default"]
        others = sorted((run for run in runs if run.name.startswith(f"{name}-")), key=lambda run: -run.stat().st_mtime)
        for run in (*named, *others):
            if run in runs:
                return run
    elif near := difflib.get_close_matches(name, [*SYSTEMS, "default"], n=1, cutoff=0.6):
        raise MissingError(f"no run at '{name}' (looked for {path / 'config.json'}); did you mean '{near[0]}'?")
    return path  # whoever opens it says what is missing


def licence_of(system: Any) -> str:
    """The licence of a system's weights: its own word, or that of the data it learns from."""
    if said := getattr(system, "licence", ""):
        return str(said)
    learnt_from = str(getattr(system, "corpus", ""))
    return "CC BY-NC 4.0" if learnt_from.startswith("empathetic") else "that of the data it was trained on"


def parts_of(system: str | Path) -> list[Part]:
    """The parts that a system needs to talk and that are not here yet: those its configuration names, and CKECE's."""
    try:
        named = json.loads((folder_of(system) / "config.json").read_text(encoding="utf-8")).get("parts", [])
    except (OSError, ValueError, AttributeError, MissingError):
        return []  # opening the system will say what is wrong
    names = dict.fromkeys((*named, *RECALLED_WITH))
    return [PARTS[name] for name in names if name in PARTS and state(PARTS[name]) != "ready"]
