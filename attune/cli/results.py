"""`attune results`: write the results page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from attune.evaluate.results import write_results


def main(
    results: Annotated[Path, typer.Option(help="Where results folders stand.")] = Path("results"),
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/RESULTS.md"),
    readme: Annotated[Path, typer.Option(help="Its short table is filled in, if it has the marks for it.")] = Path(
        "README.md"
    ),
) -> None:
    """Write docs/RESULTS.md from results/, with the papers' figures beside ours."""
    write_results(results, out, readme)
    typer.echo(f"wrote {out}")
