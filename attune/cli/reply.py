"""`attune reply`: answers for scripts."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from attune.errors import DataError


def main(
    text: Annotated[list[str] | None, typer.Argument(help="The turns so far, the person's last.")] = None,
    file: Annotated[Path | None, typer.Option(help='Lines {"turns": ["…"]}; one object a line is printed.')] = None,
    system: Annotated[str, typer.Option(help="A run folder; default: the system that comes with Attune.")] = "default",
    as_json: Annotated[bool, typer.Option("--json", help="Print an object instead of the text.")] = False,
    seed: Annotated[int, typer.Option(help="Fixes sampling.")] = 0,
) -> None:
    """Answer a conversation given as arguments, or each line of a file."""
    if bool(text) == bool(file):
        raise DataError('give either the turns as arguments or --file FILE.jsonl, as in: attune reply "I got the job!"')
    from attune.respond.agent import load

    agent = load(system)
    if text:
        reply = agent.reply(text, seed=seed)
        typer.echo(json.dumps(asdict(reply), ensure_ascii=False) if as_json else reply.text)
        return
    assert file is not None
    if not file.is_file():
        raise DataError(f"no file at {file}")
    bad = 0
    with file.open(encoding="utf-8", errors="replace") as lines:
        for number, line in enumerate(lines, 1):
            try:
                answer = asdict(agent.reply(_turns(line), seed=seed))
            except DataError as error:
                bad += 1
                answer = {"error": f"{file}:{number}: {error}"}
                print(answer["error"], file=sys.stderr)
            typer.echo(json.dumps(answer, ensure_ascii=False))
    if bad:
        raise typer.Exit(1)


def _turns(line: str) -> list[str]:
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise DataError(f"not JSON ({error})") from None
    turns = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(turns, list) or not all(isinstance(turn, str) for turn in turns):
        raise DataError('expected {"turns": ["…", …]}')
    return turns
