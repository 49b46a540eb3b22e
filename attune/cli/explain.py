"""`attune explain`: what is felt in a text or dialogue and what people commonly know about it, or what a reply came from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from attune.errors import SettingsError


def main(
    text: Annotated[list[str] | None, typer.Argument(help="The turns so far, the person's first.")] = None,
    dialogue: Annotated[Path | None, typer.Option(help="A file of dialogues or chat messages instead.")] = None,
    id: Annotated[str | None, typer.Option(help="The dialogue of that file; default: its first.")] = None,
    run: Annotated[
        str | None, typer.Option(help="A run folder: let it reply, and show what each word came from.")
    ] = None,
    seed: Annotated[int, typer.Option(help="With --run: fixes sampling.")] = 0,
    index: Annotated[Path | None, typer.Option(help="A concept index; default: ConceptNet 4.")] = None,
    vad: Annotated[str | None, typer.Option(help="A VAD lexicon by name or file; default: warriner.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write a page with everything drawn, FILE.html.")] = None,
) -> None:
    """Show emotion words, keywords, concepts and the emotional context graph of a text or dialogue; with --run, what a system's reply came from."""
    if bool(text) == bool(dialogue):
        raise SettingsError('give either a text or --dialogue FILE, as in: attune explain "I got the job!"')
    if run is not None and text and len(text) % 2 == 0:
        raise SettingsError(f"--run replies to the person: give an odd number of turns, not {len(text)}, theirs last")
    from attune.files import atomic_write
    from attune.knowledge.explain import find_dialogue, turns_of

    turns = turns_of(text or []) if dialogue is None else find_dialogue(dialogue, id).turns
    said, page, show = _knowledge(turns, index, vad) if run is None else _reply(turns, run, seed, index, vad)
    if out is not None:
        with atomic_write(out) as file:
            file.write(page(said))
    if as_json:
        print(json.dumps(said.as_json(), ensure_ascii=False, indent=1))
    elif out is None:
        show(said, Console(highlight=False))
    else:
        Console(highlight=False, soft_wrap=True).print(f"written to {out}", markup=False)


def _knowledge(turns: Any, index: Path | None, vad: str | None) -> tuple[Any, Any, Any]:
    from attune.knowledge.explain import explain
    from attune.knowledge.explain_page import explanation_page
    from attune.knowledge.terminal import show_explanation

    with Console(stderr=True).status("reading the lexicons"):
        return explain(turns, index=index, vad=vad), explanation_page, show_explanation


def _reply(turns: Any, run: str, seed: int, index: Path | None, vad: str | None) -> tuple[Any, Any, Any]:
    if index is not None or vad is not None:
        raise SettingsError("--index and --vad are not for --run: a run uses those that it was trained with")
    from attune.generate.explain import explain_reply, to_answer
    from attune.generate.explain_page import reply_page
    from attune.generate.explain_terminal import show_reply
    from attune.generate.systems import open_system

    return explain_reply(open_system(run), to_answer(turns), seed=seed), reply_page, show_reply
