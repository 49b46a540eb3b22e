"""`attune reply`: answers for scripts."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from attune.cli.options import BrevityOption, CountryOption, NameOption, WarmthOption
from attune.dialogue.types import Turn
from attune.errors import DataError

if TYPE_CHECKING:
    from attune.respond.agent import Agent

TOGETHER = 16  # lines answered in one batch


def main(
    text: Annotated[list[str] | None, typer.Argument(help="The turns so far, the person's last.")] = None,
    file: Annotated[Path | None, typer.Option(help='Lines {"turns": ["…"]}; one object a line is printed.')] = None,
    system: Annotated[str, typer.Option(help="A run folder or a system's name; default: the one in Attune.")] = (
        "default"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="Print an object instead of the text.")] = False,
    intent: Annotated[str | None, typer.Option(help="What the reply is to do, as in: questioning")] = None,
    seed: Annotated[int | None, typer.Option(help="Fixes sampling; default: fresh each time.")] = None,
    name: NameOption = "",
    warmth: WarmthOption = 0.5,
    brevity: BrevityOption = 0.5,
    country: CountryOption = None,
) -> None:
    """Answer a conversation given as arguments, or each line of a file."""
    if bool(text) == bool(file):
        raise DataError('give either the turns as arguments or --file FILE.jsonl, as in: attune reply "I got the job!"')
    if file is not None and not file.is_file():
        raise DataError(f"no file at {file}")
    from attune.generate.saying import Tone
    from attune.respond.agent import COUNT, load
    from attune.respond.preparing import prepare

    console, tone = Console(stderr=True, highlight=False), Tone(name, warmth, brevity).checked()
    prepare(system, console)
    agent = load(system, tone=tone, country=country, count=COUNT)  # a script waits for the best reply to each line
    agent.check_intent(intent)
    bad = 0
    if text:
        reply = agent.reply(text, intent=intent, seed=seed)
        typer.echo(json.dumps(reply.to_dict(), ensure_ascii=False) if as_json else reply.text)
    if file is not None:
        for answer in _answers(agent, file, intent, seed):
            bad += "error" in answer
            typer.echo(json.dumps(answer, ensure_ascii=False))
    for note in agent.notes:
        print(f"({note})", file=sys.stderr)
    if bad:
        raise typer.Exit(1)


def _answers(agent: Agent, file: Path, intent: str | None, seed: int | None) -> Iterator[dict[str, Any]]:
    """One object for each line, in order: a reply, or what is wrong with the line."""
    from attune.respond.turns import as_context

    with file.open(encoding="utf-8", errors="replace") as lines:
        numbered = enumerate(lines, 1)
        while batch := list(islice(numbered, TOGETHER)):
            asked: dict[int, Any] = {}
            wrong: dict[int, str] = {}
            for number, line in batch:
                try:
                    asked[number] = as_context(_turns(line))
                except DataError as error:
                    wrong[number] = f"{file}:{number}: {error}"
                    print(wrong[number], file=sys.stderr)
            intents, seeds = [intent] * len(asked), [seed] * len(asked)
            replies = iter(agent.reply_many(list(asked.values()), intents=intents, seeds=seeds))
            for number, _ in batch:
                yield {"error": wrong[number]} if number in wrong else next(replies).to_dict()


def _turns(line: str) -> list[str | Turn]:
    """Texts, or objects with role and text."""
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise DataError(f"not JSON ({error})") from None
    turns = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(turns, list):
        raise DataError('expected {"turns": ["…", …]}')
    return [
        Turn(turn["role"], turn["text"]) if isinstance(turn, dict) and {"role", "text"} <= turn.keys() else turn
        for turn in turns
    ]
