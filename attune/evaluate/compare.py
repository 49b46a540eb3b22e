"""Several runs on one page: a table with intervals, their signatures, their commonest mistakes, and figures (HTML)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path

from attune.errors import SettingsError
from attune.evaluate.figures import PLOTTED, confused_pairs, confusion, intervals
from attune.evaluate.figures import against as against_figure
from attune.evaluate.scores import Scores
from attune.evaluate.sweeps import points
from attune.evaluate.tables import Table, comparison
from attune.files import atomic_write

_STYLE = """
:root { color-scheme: light }
body { font: 15px/1.5 system-ui, sans-serif; color: #22303c; background: #fbfcfd; margin: 2rem auto; max-width: 72rem; padding: 0 1rem }
h1, h2 { font-weight: 600; letter-spacing: -.01em } h2 { margin-top: 2.2rem }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; white-space: nowrap }
th { text-align: left; border-bottom: 2px solid #2f6f8f } td, th { padding: .35rem .7rem } tbody tr:nth-child(even) { background: #f0f4f7 }
td:first-child { font-weight: 600 } code { font-size: 12px; overflow-wrap: anywhere } .note { font-size: 13px; color: #52616d; margin: .2rem 0 }
svg { max-width: 100%; height: auto } figure { margin: 1rem 0 }
"""


def compare(
    folders: Sequence[str | Path],
    out: str | Path | None = None,
    *,
    metrics: Sequence[str] | None = None,
    mix: bool = False,
    against: str | None = None,
) -> Table:
    """Put the scores of runs or results folders side by side; with `out` also write a page (`.md` or `.html`).

    `against` is a setting of their recipes, such as model.concepts_per_dialogue: the runs stand in the order of its values, and
    the page draws each metric over them.
    """
    found = points(folders, against) if against else [(0.0, Scores.read(folder)) for folder in folders]
    scores = [one for _, one in found]
    table = comparison(scores, metrics, mix=mix)
    drawn = ""
    if against:
        column = [against.rpartition(".")[2], *(f"{value:g}" for value, _ in found)]
        lines = [[row[0], value, *row[1:]] for row, value in zip([table.header, *table.rows], column, strict=True)]
        table = Table(lines[0], lines[1:], table.notes)
    if out is not None:
        kind = Path(out).suffix.lower()
        if kind not in (".md", ".html"):
            raise SettingsError(f"--out writes .md or .html, not '{out}'")
        if against and kind == ".html":
            drawn = against_figure(found, against, metrics or PLOTTED)
        text = page_html(scores, table, drawn) if kind == ".html" else page_markdown(scores, table)
        with atomic_write(Path(out)) as file:
            file.write(text)
    return table


def page_markdown(scores: Sequence[Scores], table: Table) -> str:
    """The comparison as Markdown."""
    parts = ["# Comparison\n", table.markdown()]
    parts.append("## How the scores were taken\n\n" + "".join(f"- {one.title}: `{one.signature}`\n" for one in scores))
    mistakes = [f"- {one.title}: {_mistakes(one)}\n" for one in scores if one.confusion is not None]
    if mistakes:
        parts.append("## Commonest mistakes (gold → predicted)\n\n" + "".join(mistakes))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def page_html(scores: Sequence[Scores], table: Table, sweep: str = "") -> str:
    """The comparison as one self-contained page; `sweep` is a drawing of metrics over a setting."""
    signatures = "".join(
        f"<p><b>{html.escape(one.title)}</b><br><code>{html.escape(str(one.signature))}</code></p>" for one in scores
    )
    matrices = "".join(
        f"<figure><figcaption><b>{html.escape(one.title)}</b>: {html.escape(_mistakes(one))}</figcaption>{confusion(one)}</figure>"
        for one in scores
        if one.confusion is not None
    )
    drawn = intervals(scores)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Comparison of {len(scores)} runs</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f'<h1>Comparison</h1>\n<div class="wide">{table.html()}</div>\n'
        + (f"<h2>Over the values of the setting</h2>\n<figure>{sweep}</figure>\n" if sweep else "")
        + (f"<h2>Values and 95 % intervals</h2>\n<figure>{drawn}</figure>\n" if drawn else "")
        + f"<h2>How the scores were taken</h2>\n{signatures}\n"
        + (f"<h2>Which emotions are taken for which</h2>\n{matrices}\n" if matrices else "")
        + "</body>\n</html>\n"
    )


def _mistakes(one: Scores) -> str:
    return ", ".join(f"{gold} → {predicted} ({count})" for gold, predicted, count in confused_pairs(one)) or "none"
