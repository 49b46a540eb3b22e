"""`attune stats`: what a corpus says about feeling and knowing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

app = typer.Typer()
Data = Annotated[Path, typer.Option(help="A corpus folder, or one file of dialogues.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Out = Annotated[Path | None, typer.Option(help="Write the numbers and pictures as a page, FILE.html.")]


@app.command()
def emotions(
    data: Data,
    split: Annotated[str | None, typer.Option(help="Of a corpus folder; default: train.")] = None,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Count emotions, the words used most with each, and which label of the listener follows which of the speaker."""
    from attune.knowledge.statistics import emotion_statistics
    from attune.knowledge.statistics_page import emotion_page
    from attune.knowledge.terminal import show_emotions

    with _progress("dialogues") as report:
        found = emotion_statistics(data, split=split, report=report)
    _give(found.as_json, lambda: emotion_page(found), lambda console: show_emotions(found, console), as_json, out)


@app.command()
def knowledge(
    data: Data,
    split: Annotated[str | None, typer.Option(help="Of a corpus folder; default: all.")] = None,
    index: Annotated[Path | None, typer.Option(help="A concept index; default: ConceptNet 4.")] = None,
    as_json: AsJson = False,
    out: Out = None,
) -> None:
    """Count how many words of the responses stand in the history, and how many are one hop from it."""
    from attune.knowledge.build import open_index
    from attune.knowledge.overlap import knowledge_statistics
    from attune.knowledge.statistics_page import knowledge_page
    from attune.knowledge.terminal import show_knowledge

    with _progress("responses") as report:
        found = knowledge_statistics(data, split=split, index=open_index(index), report=report)
    _give(found.as_json, lambda: knowledge_page(found), lambda console: show_knowledge(found, console), as_json, out)


@contextmanager
def _progress(what: str) -> Iterator[Callable[[int], None]]:
    """A line on the terminal that says how many are done."""
    with Console(stderr=True).status(f"reading {what}") as status:

        def report(done: int) -> None:
            if done % 1_000 == 0:
                status.update(f"{done:,} {what}")

        yield report


def _give(
    values: Callable[[], dict[str, Any]],
    html: Callable[[], str],
    show: Callable[[Console], None],
    as_json: bool,
    out: Path | None,
) -> None:
    from attune.files import atomic_write

    if out is not None:
        with atomic_write(out) as file:
            file.write(html())
    if as_json:
        print(json.dumps(values(), ensure_ascii=False))
    elif out is None:
        show(Console(highlight=False))
    else:
        Console(highlight=False, soft_wrap=True).print(f"written to {out}", markup=False)
