"""`attune audit`: nothing but the context may reach a system."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer


def main(
    run: Annotated[str, typer.Argument(help="Run folder, or a system's name.")],
    data: Annotated[
        Path | None, typer.Option(help="Corpus folder; default: EmpatheticDialogues below ATTUNE_DATA.")
    ] = None,
    split: Annotated[str, typer.Option(help="Which split.")] = "test",
    protocol: Annotated[
        str, typer.Option(help="How dialogues become examples; 'feedback' has all that can leak.")
    ] = "feedback",
    n: Annotated[int, typer.Option(min=1, help="How many examples.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the changes.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Check that a system sees nothing it must not see. Exit code 1 if it does."""
    from attune.dialogue.protocols import examples
    from attune.dialogue.readers import read
    from attune.evaluate.audit import audit
    from attune.generate.systems import open_system
    from attune.train.data import corpus

    report = audit(open_system(run), list(islice(examples(read(corpus(data), split=split), protocol), n)), seed)
    if as_json:
        typer.echo(json.dumps(report.json(), ensure_ascii=False))
    else:
        for check in report.checks:
            typer.echo(str(check))
        typer.echo(f"{report.system}: {'no leak' if report.passed else 'LEAK'} in {report.n} examples")
    raise typer.Exit(0 if report.passed else 1)
