"""Scores as tables: one row a run, one column a metric, and never two signatures in one column without saying so."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from attune.errors import SettingsError
from attune.evaluate.intervals import Score
from attune.evaluate.metrics import METRICS, in_order
from attune.evaluate.scores import Scores

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_MARKS = "ᵃᵇᶜᵈᵉᶠᵍʰⁱʲᵏˡᵐⁿᵒᵖʳˢᵗᵘᵛʷˣʸᶻ"


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text, and notes that stand under them. `**…**` in a cell is bold."""

    header: list[str]
    rows: list[list[str]]
    notes: list[str] = field(default_factory=list)

    def markdown(self) -> str:
        """
        >>> print(Table(["run", "dist-1"], [["a", "**0.5**"]], ["of 10 replies"]).markdown())
        | run | dist-1 |
        |---|---|
        | a | **0.5** |
        <BLANKLINE>
        of 10 replies
        <BLANKLINE>
        """
        lines = [self.header, ["---"] * len(self.header), *self.rows]
        text = "\n".join(
            "|" + "|".join(cells) + "|" if cells[0] == "---" else f"| {' | '.join(cells)} |" for cells in lines
        )
        return text + "\n\n" + "".join(f"{note}\n\n" for note in self.notes)

    def turned(self) -> Table:
        """Rows as columns."""
        header, *rows = (list(cells) for cells in zip(self.header, *self.rows, strict=True))
        return Table(header, rows, self.notes)

    def print(self, may_turn: bool = False) -> None:
        """To the terminal. A table that is too wide for it `may_turn`: its rows are shown as columns where that takes less."""
        from rich.console import Console

        console, shown = Console(), self._rich()
        if may_turn:
            room, turned = console.options.update(width=10_000), self.turned()._rich()
            wide, other = (console.measure(one, options=room).maximum for one in (shown, turned))
            shown = turned if other < wide > console.width else shown
        console.print(shown)
        for note in self.notes:
            console.print(note, style="dim", markup=False, highlight=False, soft_wrap=True)

    def _rich(self) -> RichTable:
        from rich.markup import escape
        from rich.table import Table as RichTable

        shown = RichTable(box=None, header_style="bold", pad_edge=False)
        for title in self.header:
            shown.add_column(escape(title), overflow="fold")
        for cells in self.rows:
            shown.add_row(*(_bold(escape(text), "[b]", "[/b]") for text in cells))
        return shown

    def html(self) -> str:
        def row(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{_bold(html.escape(cell))}</{tag}>" for cell in cells) + "</tr>"

        body = "\n".join(row(cells, "td") for cells in self.rows)
        notes = "".join(f'<p class="note">{html.escape(note)}</p>' for note in self.notes)
        return f"<table><thead>{row(self.header, 'th')}</thead><tbody>\n{body}\n</tbody></table>\n{notes}"


def _bold(text: str, begin: str = "<b>", end: str = "</b>") -> str:
    return "".join(f"{begin}{part}{end}" if i % 2 else part for i, part in enumerate(text.split("**")))


def cell(score: Score | None, digits: int = 2, interval: bool = True) -> str:
    """A score as text.

    >>> cell(Score(33.284, 32.1, 34.5)), cell(Score(1.5)), cell(None)
    ('33.28 [32.10, 34.50]', '1.50', '–')
    """
    if score is None or score.value is None:
        return "–"
    text = f"{score.value:.{digits}f}"
    if interval and score.low is not None and score.high is not None:
        text += f" [{score.low:.{digits}f}, {score.high:.{digits}f}]"
    return text


def clash(scores: Sequence[Scores], metric: str) -> tuple[Scores, Scores, list[str]] | None:
    """Two of the runs that may not share this metric's column, and the fields of their signatures that differ."""
    having = [one for one in scores if one.value(metric) is not None]
    for other in having[1:]:
        fields = having[0].signature.differs(other.signature, METRICS[metric].agree)
        if fields:
            return having[0], other, fields
    return None


class Footnotes:
    """The marks of one table: the same way of measuring has the same mark in every column that mixes several."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def column(self, scores: Sequence[Scores], metric: str) -> dict[str, str]:
        """Signature → mark, where the runs differ in what matters to the metric; empty if none do."""
        having = [one for one in scores if one.value(metric) is not None]
        if clash(having, metric) is None:
            return {}
        agree = METRICS[metric].agree
        keys = {str(one.signature): tuple(pair for pair in one.signature.pairs() if pair[0] in agree) for one in having}
        differing = {pair[0][0] for pair in zip(*set(keys.values()), strict=True) if len(set(pair)) > 1}
        said = {
            signature: ", ".join(f"{name} {value}" for name, value in way if name in differing)
            for signature, way in keys.items()
        }
        for text in said.values():
            self._marks.setdefault(text, _MARKS[len(self._marks) % len(_MARKS)])
        return {signature: self._marks[text] for signature, text in said.items()}

    def notes(self) -> list[str]:
        """What each mark stands for."""
        return [f"{mark} {text}" for text, mark in self._marks.items()]


def comparison(
    scores: Sequence[Scores], metrics: Sequence[str] | None = None, *, mix: bool = False, interval: bool = True
) -> Table:
    """Runs side by side. A metric taken with an oracle has a column of its own.

    Where two runs differ in a field of the signature that matters to a metric, that is an error; with `mix` the cells
    carry a mark and the notes say what each mark stands for. The best value of a column is bold, unless it is mixed.
    """
    named = list(metrics) if metrics else in_order(METRICS)
    rows = [[one.title] for one in scores]
    header, footnotes = ["run"], Footnotes()
    for name in named:
        metric = METRICS[name]
        for oracle in (False, True):
            group = [one for one in scores if one.oracle == oracle]
            if not any(one.value(name) is not None for one in group):
                continue
            found = clash(group, name)
            if found and not mix:
                raise SettingsError(_refusal(name, found))
            mark = footnotes.column(group, name)
            header.append(metric.title + (" (oracle)" if oracle else ""))
            best = None if found else _best(group, name)
            for row, one in zip(rows, scores, strict=True):
                score = one.metrics.get(name) if one.oracle == oracle else None
                text = cell(score, metric.digits, interval)
                if score is not None and score.value is not None:
                    text = f"**{text}**" if score.value == best else text
                    text += mark.get(str(one.signature), "")
                row.append(text)
    return Table(header, rows, footnotes.notes())


def run_table(scores: Scores) -> Table:
    """One run, one line for each metric that could be computed; the notes say why the others could not."""
    rows = []
    for name in in_order(scores.metrics):
        metric, score = METRICS[name], scores.metrics[name]
        if score.value is None:
            continue
        low, high = (cell(Score(x), metric.digits) for x in (score.low, score.high))
        rows.append([name, cell(Score(score.value), metric.digits), low, high, metric.about])
    return Table(["metric", "value", "low", "high", "what it is"], rows, [str(scores.signature), *scores.notes])


def _best(group: Sequence[Scores], name: str) -> float | None:
    values = [value for one in group if (value := one.value(name)) is not None]
    better = METRICS[name].better
    if len(set(values)) < 2 or better == "neither":
        return None
    return max(values) if better == "higher" else min(values)


def _refusal(name: str, found: tuple[Scores, Scores, list[str]]) -> str:
    one, other, fields = found
    said = "; ".join(f"{f}: {getattr(one.signature, f)} ≠ {getattr(other.signature, f)}" for f in fields)
    return (
        f"{name} of '{one.title}' and '{other.title}' may not share a column ({said}); "
        "--metric picks other columns, --mix shows them side by side with a footnote"
    )
