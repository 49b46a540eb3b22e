"""The papers' result tables, as data (`data/papers.yaml`): what was published, and why it cannot be compared just so."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import yaml


@dataclass(frozen=True, slots=True)
class PaperRow:
    """One row of a published table. `figures` are percentages where our metrics are.

    >>> kemp = next(row for row in rows("listener-turns") if row.system == "KEMP")
    >>> kemp.source, kemp.ours, kemp.figures["emotion_accuracy"]
    ('001, Tab. 2', 'kemp', 39.31)
    """

    system: str
    source: str
    task: str
    corpus: str
    figures: dict[str, float]
    differs: str
    ours: str | None = None
    oracle: bool = False
    raters: str = ""


@cache
def papers() -> dict[str, str]:
    """Seed → paper."""
    return {table["seed"]: table["paper"] for table in _tables()}


@cache
def rows(task: str | None = None) -> tuple[PaperRow, ...]:
    """All published rows, or those of one task, in the order of the papers. A row printed twice is given once."""
    found: dict[tuple[object, ...], PaperRow] = {}
    for table in _tables():
        for row in table["rows"]:
            told = dict(row)
            system, ours = told.pop("system"), told.pop("ours", None)
            note, oracle = told.pop("note", ""), told.pop("oracle", False)
            figures = {name: float(value) for name, value in told.items()}
            one = PaperRow(
                system=system,
                source=f"{table['seed']}, {table.get('place') or 'Tab. ' + str(table['table'])}",
                task=table["task"],
                corpus=table.get("corpus", "ED"),
                figures=figures,
                differs="; ".join(filter(None, [table["differs"], note])),
                ours=ours,
                oracle=oracle,
                raters=table.get("raters", table["differs"]),
            )
            shared = ("emotion_accuracy", "ppl_reply_macro", "dist_1", "dist_2")
            key = (table["seed"], one.task, one.corpus, system, *(figures.get(name) for name in shared))
            found.setdefault(key if any(name in figures for name in shared) else (len(found),), one)
    return tuple(row for row in found.values() if task in (None, row.task))


def corpora(task: str) -> list[str]:
    """The corpora that a task was measured on, in the order of the papers."""
    return list(dict.fromkeys(row.corpus for row in rows(task)))


@cache
def _tables() -> list[dict[str, Any]]:
    text = resources.files("attune.evaluate").joinpath("data", "papers.yaml").read_text(encoding="utf-8")
    tables: list[dict[str, Any]] = yaml.safe_load(text)
    return tables
