"""`attune label`: the emotion or intent of each line of a file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

CHUNK = 512  # lines labelled, and printed, together


def main(
    file: Annotated[str, typer.Argument(help="A file with one text a line, or - for standard input.")],
    run: Annotated[
        str | None,
        typer.Option(help="Run folder of a classifier, or an export of one; default: the one that comes with Attune."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, with all probabilities.")] = False,
) -> None:
    """Print the label of each line and its probability: one of 32 emotions, 8 intents, or neutral."""
    from attune.generate.labeller import PACKAGED, Labeller

    labeller = Labeller.open(run or PACKAGED)
    texts = iter(_lines(file))
    while chunk := list(islice(texts, CHUNK)):
        for text, found in zip(chunk, labeller.label(chunk), strict=True):
            shares = {name: round(share, 4) for name, share in found.probabilities.items()}
            row = {"text": text, "label": found.label, "probability": shares[found.label], "probabilities": shares}
            typer.echo(
                json.dumps(row, ensure_ascii=False) if as_json else f"{found.label}\t{found.probability:.2f}\t{text}"
            )


def _lines(file: str) -> Iterable[str]:
    if file == "-":
        return (line.rstrip("\r\n") for line in sys.stdin)
    from attune.dialogue.lines import lines

    return (text for _, text in lines(Path(file), tolerant=True))
