"""`attune data`: check, list and fetch corpora."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from attune.dialogue.check import check as check_corpus
from attune.dialogue.check import show
from attune.dialogue.corpora import CORPORA
from attune.dialogue.protocols import PROTOCOLS
from attune.dialogue.readers import READERS
from attune.emotion.taxonomy import LABELS
from attune.errors import SettingsError

app = typer.Typer()


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="A corpus folder, or one file of dialogues.")],
    reader: Annotated[str | None, typer.Option(help="The format, if it is not to be told from the content.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Stop at the first bad row.")] = False,
) -> None:
    """Say what a corpus holds: dialogues, turns, examples, labels, duplicates, what stands in two splits, bad rows."""
    with Console(stderr=True).status(f"reading {path}"):
        found = check_corpus(path, reader=reader, strict=strict, known=LABELS)
    if as_json:
        print(json.dumps(found.as_json(), ensure_ascii=False, indent=2))
    else:
        show(found, Console(highlight=False))


@app.command("ls")
def ls(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """List the corpora that can be fetched, the formats that can be read, and the protocols."""
    corpora = [(c.name, f"{c.megabytes:g} MB", c.about, c.licence) for c in CORPORA.values()]
    readers = [(reader.name, reader.about) for reader in READERS.values()]
    protocols = [(str(p), (p.function.__doc__ or "").splitlines()[0]) for p in PROTOCOLS.values()]
    if as_json:
        keys = ("name", "size", "about", "licence")
        print(
            json.dumps(
                {
                    "corpora": [dict(zip(keys, row)) for row in corpora],
                    "readers": dict(readers),
                    "protocols": dict(protocols),
                },
                indent=2,
            )
        )
        return
    console = Console(highlight=False)
    for title, rows in (
        ("Corpora (attune data get NAME)", corpora),
        ("Readers (told from the content)", readers),
        ("Protocols", protocols),
    ):
        table = Table(
            title=title, title_justify="left", box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0)
        )
        for row in rows:
            table.add_row(*row)
        console.print(table, "")


@app.command()
def get(
    name: Annotated[str, typer.Argument(help="A corpus of `attune data ls`.")],
    out: Annotated[Path, typer.Option(help="The data folder; the corpus gets a folder of its own in it.")],
    url: Annotated[str | None, typer.Option(help="A mirror to fetch from instead of the official source.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Accept the licence without being asked.")] = False,
) -> None:
    """Fetch a corpus from its official source. A download that was cut goes on where it stopped."""
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    from attune.dialogue.get import get as get_corpus

    corpus = CORPORA[name]
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{corpus.name}: {corpus.about}\nlicence: {corpus.licence}\nsource: {url or corpus.url}", markup=False
    )
    if not yes:
        if not sys.stdin.isatty():
            raise SettingsError(f"the licence of {corpus.name} has to be accepted: say --yes")
        typer.confirm(f"Fetch about {corpus.megabytes:g} MB under this licence?", abort=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        bar = bars.add_task(corpus.name, total=None)
        folder = get_corpus(
            corpus, out, url=url, progress=lambda done, total: bars.update(bar, completed=done, total=total)
        )
    console.print(f"written to {folder}", markup=False)
