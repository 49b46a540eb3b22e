"""`attune compare`: runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.evaluate.compare import compare


def main(
    runs: Annotated[list[Path], typer.Argument(help="Run or results folders that have scores.json.")],
    out: Annotated[Path | None, typer.Option(help="Write a page: FILE.md, or FILE.html with figures.")] = None,
    metric: Annotated[list[str] | None, typer.Option(help="Only this metric (give it several times for more).")] = None,
    mix: Annotated[
        bool, typer.Option("--mix", help="Put different signatures into one column, with footnotes.")
    ] = False,
    against: Annotated[
        str | None, typer.Option(help="A setting such as model.concepts_per_dialogue: draw the metrics over it.")
    ] = None,
) -> None:
    """Put the scores of several runs side by side. Scores that were taken differently do not share a column."""
    compare(runs, out, metrics=metric, mix=mix, against=against).print(may_turn=True)
