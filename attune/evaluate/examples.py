"""`docs/EXAMPLES.md`: the papers' case studies (`data/case_studies.yaml`), with our replies beside those printed there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple

import yaml

from attune.evaluate.papers import papers
from attune.files import atomic_write

_INTRO = """# Examples

The contexts that the five papers print as case studies, with the replies that stand beside them there (in *italics*; "a person" is
the corpus's own reply), and ours (in **bold**): one candidate each, the first that came with seed 0; and, of a system that ranks
several, the best of them, read by the guard, as people get it. We chose none of the contexts; the papers chose theirs.

Written by `{command}`; do not edit.
"""


@dataclass(frozen=True, slots=True)
class Case:
    """A context of a paper, and the replies printed there.

    >>> case = case_studies()[0]
    >>> case.source, case.emotion, case.replies["MoEL"]
    ('000, Table 4', 'excited', 'I hope you have a great time!')
    """

    source: str
    turns: tuple[str, ...]
    replies: Mapping[str, str]
    emotion: str | None = None
    gold: str | None = None


class Answer(NamedTuple):
    """What a system of ours says, what it perceives, and the label that it chose; nothing where it does not."""

    text: str
    emotion: str | None = None
    label: str | None = None


Answering = Callable[[Sequence[tuple[str, ...]]], Sequence[Answer]]


@cache
def case_studies() -> tuple[Case, ...]:
    """All cases, in the order of the papers."""
    text = resources.files("attune.evaluate").joinpath("data", "case_studies.yaml").read_text(encoding="utf-8")
    return tuple(
        Case(
            table["source"],
            tuple(case["turns"]),
            case["replies"],
            emotion=case.get("emotion"),
            gold=case.get("gold"),
        )
        for table in yaml.safe_load(text)
        for case in table["cases"]
    )


def write_examples(systems: Mapping[str, Answering], out: Path, command: str) -> None:
    """Ask each system for its replies and write the page."""
    cases = case_studies()
    asked = [case.turns for case in cases]
    ours = {name: list(answers(asked)) for name, answers in systems.items()}
    with atomic_write(out) as file:
        file.write("\n".join([_INTRO.format(command=command), *_tables(cases, ours)]))


def _tables(cases: Sequence[Case], ours: Mapping[str, Sequence[Answer]]) -> Iterable[str]:
    before = None
    for i, case in enumerate(cases):
        if case.source != before:
            seed, table = case.source.split(", ")
            yield f"## {papers()[seed]} ({seed}), {table}\n"
            before = case.source
        yield from (
            f"> {'**Listener:**' if at % 2 else '**Speaker:**'} {_plain(turn)}  " for at, turn in enumerate(case.turns)
        )
        yield f"\nThe speaker is labelled {case.emotion}.\n" if case.emotion else ""
        yield "| who | reply | what it took it for |\n|---|---|---|"
        if case.gold:
            yield f"| *a person* | {_plain(case.gold)} | |"
        yield from (f"| *{name}* | {_plain(reply)} | |" for name, reply in case.replies.items())
        for name, answers in ours.items():
            took = ", so ".join(filter(None, [answers[i].emotion, answers[i].label]))
            yield f"| **{name}** | {_plain(answers[i].text)} | {took} |"
        yield ""


def _plain(text: str) -> str:
    """A text that cannot become markup."""
    return text.replace("|", "\\|").replace("*", "\\*").replace("\n", " ")
