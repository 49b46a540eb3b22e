"""The first start: what it needs is fetched and indexed, and told. Later starts have nothing to do here."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TaskID, TextColumn
from rich.text import Text

from attune.errors import MissingError
from attune.generate.engines.merged import merged, merged_at
from attune.generate.light import ADAPTER, adapters
from attune.knowledge import build
from attune.parts import Part, locate
from attune.respond.opening import folder_of, parts_of


def prepare(system: str, console: Console) -> None:
    """Fetch the parts of a system and of recall, put its voice together, and index the concepts.

    What cannot be had is no reason to stop: the agent says which stage is off.
    """
    try:
        if missing := parts_of(system):
            _fetch(missing, console)
        _voice(system, console)
        _index(console)
    except MissingError as error:
        _say(console, f"({error})")


def _fetch(parts: Sequence[Part], console: Console) -> None:
    size = sum(part.megabytes for part in parts)
    _say(console, f"First start: {len(parts)} parts, {size:.0f} MB, are fetched once and kept.")
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        for part in parts:
            total = int(part.megabytes * 1e6)
            bar = bars.add_task(part.name, total=total)

            def more(_: str, done: int, bar: TaskID = bar, total: int = total) -> None:
                bars.update(bar, completed=min(done, total))

            locate(part.name, progress=more)
            _say(console, f"{part.name}: {part.why} ({part.licence})")


def _voice(system: str, console: Console) -> None:
    """A light system's adapters are worked into its decoder."""
    try:
        folder = folder_of(system)
    except MissingError:
        return  # opening the system will say what is wrong
    if (folder / ADAPTER).is_file():
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        model, files = locate(config["decoder"]), [folder / file for file in adapters(config)]
        if not merged_at(model, files).is_file():
            _say(console, "First start: the system's own weights are worked into its language model, once.")
            merged(model, files)


def _index(console: Console) -> None:
    bars = Progress(TextColumn("{task.description}"), BarColumn(), console=console, transient=True)
    steps: dict[str, TaskID] = {}

    def report(progress: build.Progress) -> None:
        if not steps:
            _say(console, "First start: the concepts are indexed once.")
            bars.start()
        if progress.stage not in steps:
            steps[progress.stage] = bars.add_task(f"concepts: {progress.stage}", total=1.0)
        bars.update(steps[progress.stage], completed=progress.share)

    try:
        build.default_index(report)
    finally:
        if steps:
            bars.stop()


def _say(console: Console, text: str) -> None:
    console.print(Text(text, "dim"), soft_wrap=True)
