"""What a system looked at when it replied, in the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from attune.generate.explain import ReplyExplanation
from attune.generate.explain_page import ROWS, summary
from attune.knowledge.terminal import bar

_WIDTH = 16


def show_reply(said: ReplyExplanation, console: Console) -> None:
    """Print a reply, where each of its words looked, and the weights by which the system mixed parts of itself."""
    for turn in said.turns:
        console.print(Text.assemble((f"{turn.role}: ", "dim"), turn.text), soft_wrap=True)
    console.print(Text(summary(said), "bold"), soft_wrap=True)
    if said.places:
        table = _table("word", "looked above all at")
        for i, word in enumerate(said.words):
            looked = (f"{place.text} {100 * weight:.0f} %" for place, weight in said.most(i))
            table.add_row(Text(word), Text(", ".join(looked)))
        _print(console, "Where it looked", table)
    if said.emotions:
        _print(console, "Emotion heard", _weights(said.emotions))
    for mixture in said.mixtures:
        _print(console, mixture.title, _weights(mixture.weights))


def _print(console: Console, title: str, table: Table) -> None:
    console.print()
    console.print(Text(title, "bold"))
    console.print(table)


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for column in columns:
        table.add_column(column)
    return table


def _weights(weights: Mapping[str, float]) -> Table:
    table = _table("emotion", "weight", "")
    for emotion, weight in list(weights.items())[:ROWS]:
        table.add_row(emotion, bar(weight, _WIDTH, "magenta"), f"{100 * weight:.0f} %")
    return table
