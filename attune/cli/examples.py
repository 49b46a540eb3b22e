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
    ours: dict[str, Answering] = {}
    for system in systems or ["default"]:
        ours |= _answering(system)
    write_examples(ours, out, command)
    typer.echo(f"wrote {out}")


def _answering(system: str) -> dict[str, Answering]:
    """What a system says itself, with one candidate and no guard; and, if it ranks several, what people get from it."""
    from attune.respond.agent import Agent, load

    def asked(agent: Agent) -> Answering:
        def answers(contexts: Sequence[tuple[str, ...]]) -> list[Answer]:
            # one by one, since those who ask together share candidates
            replies = [agent.reply(turns, seed=0) for turns in contexts]
            return [Answer(reply.text, reply.emotion, reply.intent) for reply in replies]

        return answers

    name, agent = Path(system).name, load(system, guard=False, count=1)
    found = {name: asked(agent)}
    if agent.speaker is not None:
        chooses = load(system)
        found[f"{name}, best of {chooses.count}"] = asked(chooses)
    return found
