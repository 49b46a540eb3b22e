"""`attune chat`: talk with a system in the terminal."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attune.cli.options import BrevityOption, CountryOption, NameOption, WarmthOption
from attune.errors import AttuneError


def main(
    system: Annotated[str, typer.Option(help="A run folder or a system's name; default: the one in Attune.")] = (
        "default"
    ),
    plain: Annotated[bool, typer.Option(help="Read lines, print replies, nothing else (for pipes).")] = False,
    name: NameOption = "",
    warmth: WarmthOption = 0.5,
    brevity: BrevityOption = 0.5,
    country: CountryOption = None,
    seed: Annotated[int | None, typer.Option(help="Fixes sampling; default: fresh each time.")] = None,
    history: Annotated[
        Path | None, typer.Option(help="Keep the lines you type in this file; default: they are not kept.")
    ] = None,
) -> None:
    """Talk. Tell what happened to you; the system answers, and shows beside it what it thinks you feel."""
    from attune.generate.saying import Tone
    from attune.respond.agent import Agent, load
    from attune.respond.preparing import prepare
    from attune.respond.terminal import Chat

    plain = plain or not sys.stdin.isatty()
    console = Console(stderr=plain, highlight=False)
    tone = Tone(name, warmth, brevity).checked()

    def opened(system: str) -> Agent:
        prepare(system, console)
        with console.status("Waking up …"):
            return load(system, tone=tone, country=country)

    chat = Chat(opened(system), opened, console, seed=seed)
    if not plain:
        threading.Thread(target=chat.conversation.agent.warm_up).start()
        chat.greet()
    lines = _Lines(plain, None if plain else history)
    while (line := lines.next()) is not None:
        if not line.strip():
            continue
        try:
            if line.startswith("/"):
                if not chat.obey(line):
                    break
            elif plain:
                print(" ".join(chat.conversation.reply(line).text.split()), flush=True)
                chat.print_notes()
            else:
                chat.print_reply(line)
        except AttuneError as error:
            chat.complain(error)
    lines.keep()


class _Lines:
    """The person's lines: from a pipe, or typed with arrows and history."""

    def __init__(self, plain: bool, history: Path | None) -> None:
        self._plain, self._history = plain, history
        if not plain:
            import readline  # arrows and history for input()

            if history is not None and history.exists():
                readline.read_history_file(history)

    def next(self) -> str | None:
        """The next line; None at the end, or after Ctrl-C."""
        if self._plain:
            line = sys.stdin.readline()
            return line.removesuffix("\n") if line else None
        try:
            return input("you: " if os.environ.get("NO_COLOR") else "\001\033[1m\002you:\001\033[0m\002 ")
        except (EOFError, KeyboardInterrupt):
            print()
            return None

    def keep(self) -> None:
        """Write the history, if it was asked for."""
        if self._history is not None:
            import readline

            self._history.parent.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(self._history)
