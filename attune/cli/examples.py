"""`attune examples`: the papers' case studies, answered."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from attune.evaluate.examples import Answer, Answering, write_examples


def main(
    systems: Annotated[
        list[str] | None, typer.Argument(help="Run folders or systems; the default system if none is given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("docs/EXAMPLES.md"),
) -> None:
    """Answer the contexts that the papers print as case studies, and write our replies beside theirs."""
    command = shlex.join(["attune", "examples", *(systems or [])])
    write_examples({Path(system).name: _answering(system) for system in systems or ["default"]}, out, command)
    typer.echo(f"wrote {out}")


def _answering(system: str) -> Answering:
    """A system without the guard and with one candidate a reply: what it says itself is what is to be seen."""
    from attune.respond.agent import load

    agent = load(system, guard=False, count=1)

    def answers(contexts: Sequence[tuple[str, ...]]) -> list[Answer]:
        replies = agent.reply_many(contexts, seeds=[0] * len(contexts))
        return [Answer(reply.text, reply.emotion, reply.intent) for reply in replies]

    return answers
