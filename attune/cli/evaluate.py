"""`attune evaluate`: score a run on a split and leave a results folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def main(
    run: Annotated[str, typer.Argument(help="Run folder, or a system's name.")],
    data: Annotated[
        Path | None, typer.Option(help="Corpus folder; default: the system's own below ATTUNE_DATA.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which split.")] = "test",
    protocol: Annotated[
        str | None, typer.Option(help="How dialogues become examples; default: the system's own.")
    ] = None,
    results: Annotated[Path, typer.Option(help="Where results folders stand.")] = Path("results"),
    variant: Annotated[
        str | None, typer.Option(help="Name the variant; default: the one in the run's config.yaml.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of sampled decoding.")] = 0,
    batch: Annotated[
        int, typer.Option(min=1, help="Examples between two saves; a stopped evaluation goes on there.")
    ] = 512,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that share the cores and the examples; each opens the run for itself.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Score a run on a split: replies, likelihood and perceived emotions, with intervals and a signature."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from attune.evaluate.evaluation import evaluate
    from attune.evaluate.tables import run_table
    from attune.generate.systems import open_system
    from attune.train.data import corpus

    system = open_system(run)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty(), transient=True) as bars:
        bar = bars.add_task(system.name, total=None)
        scores = evaluate(
            system,
            corpus(data, getattr(system, "corpus", "empathetic_dialogues")),
            split=split,
            protocol=protocol,
            results=results,
            variant=variant,
            seed=seed,
            chunk=batch,
            workers=workers,
            progress=lambda done, total: bars.update(bar, completed=done, total=total),
        )
    if as_json:
        typer.echo(json.dumps(scores.flat(), ensure_ascii=False))
    else:
        run_table(scores).print()
