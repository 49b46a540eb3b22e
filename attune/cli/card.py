"""`attune card`: the model card of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def main(
    run: Annotated[Path, typer.Argument(help="Run folder, or the folder that `attune export` wrote.")],
    results: Annotated[list[Path] | None, typer.Option(help="A results folder whose scores go into it.")] = None,
    out: Annotated[Path | None, typer.Option(help="File to write; default: MODEL_CARD.md in the folder.")] = None,
) -> None:
    """Write what a system is made of, what its training took, what it scores and what its limits are."""
    from attune.evaluate.card import write_card

    typer.echo(f"wrote {write_card(run, results or [], out)}")
