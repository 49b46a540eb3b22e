"""`attune train`: a system on a corpus, into a run folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def main(
    system: Annotated[str, typer.Argument(help="A system (see `attune ls systems`) or a recipe file.")],
    data: Annotated[
        Path | None, typer.Option(help="Corpus folder; default: the system's own below ATTUNE_DATA.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder; default: runs/SYSTEM-VARIANT.")] = None,
    variant: Annotated[str | None, typer.Option(help="A variant of the recipe, such as `tuned`.")] = None,
    set_: Annotated[list[str] | None, typer.Option("--set", help="Override a key: section.key=value.")] = None,
    fresh: Annotated[bool, typer.Option(help="Replace a run that is there instead of resuming it.")] = False,
    show: Annotated[bool, typer.Option(help="Print the complete recipe and stop.")] = False,
) -> None:
    """Train a system; a run that was interrupted goes on where it stopped."""
    from attune.train.recipes import load_recipe

    recipe = load_recipe(system, variant, set_)
    if show:
        typer.echo(recipe.dump(), nl=False)
        return
    from attune.train.trainer import train

    run = out or Path("runs") / f"{recipe.system}-{recipe.variant}"
    summary = train(recipe, data, run, fresh=fresh)
    typer.echo(
        f"{run}: " + "  ".join(f"{key} {value}" for key, value in summary.items() if not isinstance(value, dict | list))
    )
