"""`attune score`: score a file of replies, ours or other people's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from attune.evaluate.scores import score_file
from attune.evaluate.tables import run_table


def main(
    file: Annotated[Path, typer.Argument(help="JSON lines with 'prediction' and 'reference' (.gz too).")],
    data: Annotated[Path | None, typer.Option(help="Corpus folder that gives references and emotions by 'id'.")] = None,
    train: Annotated[
        Path | None, typer.Option(help="Corpus folder whose training responses replies may be copied from.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Score a file of replies.

    Each line is a JSON object with 'prediction' and 'reference', whitespace-tokenised as given; 'emotion', 'predicted_emotion',
    'nll', 'tokens', 'unk_bytes', 'text' and 'id' add to what can be computed. What cannot is null, and a note says why.
    """
    scores = score_file(file, data=data, train=train)
    if as_json:
        typer.echo(json.dumps(scores.flat(), ensure_ascii=False))
    else:
        run_table(scores).print()
