"""`attune explain`: what is felt in a text or dialogue, and what people commonly know about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from attune.errors import SettingsError


def main(
    text: Annotated[list[str] | None, typer.Argument(help="The turns so far, the person's first.")] = None,
    dialogue: Annotated[Path | None, typer.Option(help="A file of dialogues or chat messages instead.")] = None,
    id: Annotated[str | None, typer.Option(help="The dialogue of that file; default: its first.")] = None,
    index: Annotated[Path | None, typer.Option(help="A concept index; default: ConceptNet 4.")] = None,
    vad: Annotated[str | None, typer.Option(help="A VAD lexicon by name or file; default: warriner.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a page with the graph drawn, FILE.html.")] = None,
) -> None:
    """Show emotion words, keywords, concepts with their scores, and the emotional context graph of a text or dialogue."""
    if bool(text) == bool(dialogue):
        raise SettingsError('give either a text or --dialogue FILE, as in: attune explain "I got the job!"')
    from attune.files import atomic_write
    from attune.knowledge.explain import explain, find_dialogue, turns_of
    from attune.knowledge.explain_page import explanation_page
    from attune.knowledge.terminal import show_explanation

    turns = turns_of(text or []) if dialogue is None else find_dialogue(dialogue, id).turns
    with Console(stderr=True).status("reading the lexicons"):
        said = explain(turns, index=index, vad=vad)
    if out is not None:
        with atomic_write(out) as file:
            file.write(explanation_page(said))
    if as_json:
        print(json.dumps(said.as_json(), ensure_ascii=False, indent=1))
    elif out is None:
        show_explanation(said, Console(highlight=False))
    else:
        Console(highlight=False, soft_wrap=True).print(f"written to {out}", markup=False)
