"""`attune ls`: what is registered."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console

from attune.errors import SettingsError, did_you_mean


def _systems() -> list[str]:
    from attune.models import SYSTEMS

    return list(SYSTEMS)


def _recipes() -> list[str]:
    from attune.models import SYSTEMS
    from attune.train.recipes import variants

    return [f"{system} --variant {variant}" for system in SYSTEMS for variant in variants(system)]


def _readers() -> list[str]:
    from attune.dialogue.readers import READERS

    return list(READERS)


def _protocols() -> list[str]:
    from attune.dialogue.protocols import PROTOCOLS

    return [str(protocol) for protocol in PROTOCOLS.values()]


def _metrics() -> list[str]:
    from attune.evaluate.metrics import METRICS

    return list(METRICS)


def _decodings() -> list[str]:
    from attune.generate.settings import MODES

    return list(MODES)


def _parts() -> list[str]:
    from attune.parts import PARTS

    return list(PARTS)


def _sources() -> list[str]:
    from attune.knowledge.sources import SOURCES

    return list(SOURCES)


def _lexicons() -> list[str]:
    from attune.emotion.lexicons import LEXICONS

    return list(LEXICONS)


KINDS: dict[str, Callable[[], list[str]]] = {
    "systems": _systems,
    "recipes": _recipes,
    "readers": _readers,
    "protocols": _protocols,
    "metrics": _metrics,
    "decodings": _decodings,
    "parts": _parts,
    "sources": _sources,
    "lexicons": _lexicons,
}


def main(
    kind: Annotated[str | None, typer.Argument(help=f"One of {', '.join(KINDS)}; default: all.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List what Attune knows by name."""
    if kind is not None and kind not in KINDS:
        raise SettingsError(did_you_mean(kind, KINDS, "kind"))
    found = {name: KINDS[name]() for name in ([kind] if kind else KINDS)}
    if as_json:
        typer.echo(json.dumps(found, indent=1))
        return
    console = Console(highlight=False)
    for name, entries in found.items():
        console.print(f"[bold]{name}[/]")
        for entry in entries:
            console.print(f"  {entry}")
