"""`attune knowledge`: build, check and ask concept indexes; annotate corpora."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from attune.errors import MissingError
from attune.knowledge import build as building
from attune.knowledge.index import ConceptIndex
from attune.knowledge.index import verify as verify_index
from attune.knowledge.sources import SOURCES

app = typer.Typer()
IndexOption = Annotated[Path | None, typer.Option(help="Folder of an index; by default the ConceptNet 4 in Attune.")]
IndexArgument = Annotated[
    Path | None, typer.Argument(help="Folder of an index; by default the ConceptNet 4 in Attune.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


class Direction(StrEnum):
    both = "both"
    out = "out"
    in_ = "in"


@app.command()
def build(
    source: Annotated[str, typer.Argument(help=f"One of: {', '.join(SOURCES)}.")],
    out: Annotated[Path, typer.Option(help="Folder of the new index; an older one stays until this is complete.")],
    file: Annotated[Path | None, typer.Option(help="The source's file, where Attune does not bring it.")] = None,
) -> None:
    """Index a concept source."""
    with _reading(f"indexing {source}") as report:
        index = building.build(source, out, file, report)
    meta = index.meta
    typer.echo(
        f"{out}: {meta['assertions']:,} assertions of {meta['concepts']:,} concepts from {meta['lines']:,} lines "
        f"({meta['source']}, {meta['licence']})"
    )


@app.command()
def info(index: IndexArgument = None, as_json: Json = False) -> None:
    """Say what an index holds."""
    opened = _open(index)
    if as_json:
        typer.echo(json.dumps({"folder": str(opened.folder), **opened.meta}, indent=2))
        return
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_row("folder", str(opened.folder))
    for name, value in opened.meta.items():
        if name == "files":
            table.add_row("size", f"{sum(file['bytes'] for file in value.values()) / 1e6:,.1f} MB")
        elif name == "relations":
            table.add_row(f"{len(value)} relations", ", ".join(value))
        else:
            table.add_row(name, f"{value:,}" if isinstance(value, int) else str(value))
    Console(highlight=False).print(table)


@app.command()
def lookup(
    word: Annotated[str, typer.Argument(help="A word, or a phrase in quotes.")],
    index: IndexOption = None,
    direction: Annotated[
        Direction, typer.Option(help="Statements that begin (out) or end (in) with it.")
    ] = Direction.both,
    top: Annotated[int, typer.Option(min=1, help="How many neighbours, the surest first.")] = 20,
    as_json: Json = False,
) -> None:
    """Show the neighbours of a word."""
    opened = _open(index)
    number = opened.resolve(word.lower())
    if number is None:
        near = ", ".join(f"'{concept}'" for concept in opened.nearest(word.lower()))
        raise MissingError(f"'{word}' is not in {opened.meta['source']}" + (f"; did you mean {near}?" if near else ""))
    concept = opened.concept(number)
    found = sorted(opened.neighbours_of(number, direction.value), key=lambda n: (-n.scaled, n.relation, n.concept))
    if as_json:
        neighbours = [neighbour._asdict() for neighbour in found[:top]]
        typer.echo(json.dumps({"concept": concept, "count": len(found), "neighbours": neighbours}, indent=2))
        return
    table = Table(box=None, pad_edge=False, title=f"{concept}: {len(found):,} neighbours", title_justify="left")
    for name in ("statement", "weight", "confidence"):
        table.add_column(name, justify="left" if name == "statement" else "right")
    for neighbour in found[:top]:
        ends = (concept, neighbour.concept) if neighbour.forward else (neighbour.concept, concept)
        table.add_row(f"{ends[0]} {neighbour.relation} {ends[1]}", f"{neighbour.weight:.3f}", f"{neighbour.scaled:.3f}")
    Console(highlight=False, markup=False).print(table)


@app.command()
def verify(index: IndexArgument = None) -> None:
    """Check every byte of an index against its checksums."""
    opened = _open(index)
    verify_index(opened.folder)
    typer.echo(f"{opened.folder}: whole ({opened.meta['source']}, checksum {opened.checksum[:12]})")


@app.command()
def annotate(
    data: Annotated[Path, typer.Option(help="A corpus folder, or one file of dialogues.")],
    out: Annotated[Path, typer.Option(help="Folder of the annotations; what is done there already is kept.")],
    split: Annotated[list[str] | None, typer.Option(help="Only this split (may be repeated).")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Processes; each uses one core.")] = 2,
    index: IndexOption = None,
    lexicon: Annotated[str | None, typer.Option(help="Name or file of a VAD lexicon; default: warriner.")] = None,
    vectors: Annotated[Path | None, typer.Option(help="Word vectors in GloVe's text format; default: a part.")] = None,
    protocol: Annotated[str, typer.Option(help="How dialogues become examples.")] = "listener-turns",
) -> None:
    """Work out keywords, concepts and graphs of a whole corpus, so that trainings need not."""
    from attune.knowledge import annotate as annotating

    settings = annotating.AnnotateSettings(
        index=str(index) if index else None,
        lexicon=lexicon,
        vectors=str(vectors) if vectors else None,
        protocol=protocol,
    )
    started = time.monotonic()
    with _bar("annotating", MofNCompleteColumn()) as show:
        done = annotating.annotate(
            data,
            out,
            settings,
            splits=split,
            workers=workers,
            report=lambda at: show(total=at.total, completed=at.done),
        )
    seconds = time.monotonic() - started
    typer.echo(f"{out}: {done.done:,} contexts annotated in {seconds:,.0f} s, {done.skipped:,} were there already")


def _open(folder: Path | None) -> ConceptIndex:
    if folder is not None:
        return building.open_index(folder)
    with _reading("first use: indexing ConceptNet 4") as report:
        return building.default_index(report)


@contextmanager
def _reading(title: str) -> Iterator[building.Report]:
    """Shows a build: the stage, lines and lines per second."""
    started = time.monotonic()
    with _bar(title, TextColumn("{task.fields[rate]}"), rate="") as show:

        def report(at: building.Progress) -> None:
            rate = f"{at.lines:,} lines, {at.lines / max(time.monotonic() - started, 1e-9):,.0f}/s"
            show(description=f"{title}: {at.stage}", total=1.0, completed=at.share, rate=rate)

        yield report


@contextmanager
def _bar(title: str, column: ProgressColumn, **fields: Any) -> Iterator[Callable[..., None]]:
    """A progress bar that appears when it is first told something."""
    columns = (TextColumn("{task.description}"), BarColumn(), column, TimeRemainingColumn())
    bars = Progress(*columns, console=Console(stderr=True), transient=True)
    bar = bars.add_task(title, **fields)

    def show(**news: Any) -> None:
        bars.start()
        bars.update(bar, **news)

    try:
        yield show
    finally:
        if bars.live.is_started:
            bars.stop()
