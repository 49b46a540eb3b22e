"""`attune chat`: talk with a system in the terminal."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.markup import escape

if TYPE_CHECKING:  # torch is imported only when a system is loaded
    from attune.respond.agent import Agent

HELP = "/new starts another conversation, /quit ends, /help shows this."


def main(
    system: Annotated[str, typer.Option(help="A run folder; default: the system that comes with Attune.")] = "default",
    plain: Annotated[bool, typer.Option(help="Read lines, print replies, nothing else (for pipes).")] = False,
) -> None:
    """Talk. Tell what happened to you; the system answers, and shows beside it what it thinks you feel."""
    plain = plain or not sys.stdin.isatty()
    console = Console(stderr=plain, highlight=False)
    if not plain:
        with console.status("Waking up …"):
            agent = _load(system)
        console.print(
            f"[bold]Attune[/] ({escape(agent.system.name)}). It is a machine and can be wrong; in danger, call for help "
            f"where you live.\n[dim]{HELP}[/]"
        )
    else:
        agent = _load(system)
    from attune.errors import DataError

    turns: list[str] = []
    while True:
        try:
            text = _ask(plain)
        except (EOFError, KeyboardInterrupt):
            break
        if not text.strip():
            continue
        if text.startswith("/"):
            if text in ("/quit", "/exit"):
                break
            if text == "/new":
                turns = []
            console.print(f"[dim]{HELP if text != '/new' else 'A new conversation.'}[/]")
            continue
        try:
            reply = agent.reply([*turns, text])
        except DataError as error:
            console.print(f"[red]{escape(str(error))}[/]")
            continue
        turns += [text, reply.text]
        if plain:
            print(reply.text, flush=True)
            continue
        felt = "  ".join(f"{name} {share:.0%}" for name, share in list(reply.emotions.items())[:3])
        console.print(f"[cyan]{escape(reply.text)}[/]" + (f"   [dim]{felt}[/]" if felt else ""))


def _ask(plain: bool) -> str:
    """The person's next line; EOFError when there is none."""
    if plain:
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.removesuffix("\n")
    import readline  # noqa: F401  arrows and history for input()

    return input("you: " if os.environ.get("NO_COLOR") else "\001\033[1m\002you:\001\033[0m\002 ")


def _load(system: str) -> Agent:
    from attune.respond.agent import load

    return load(system)
