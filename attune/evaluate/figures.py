"""Figures for the comparison page, drawn as SVG text that stands inside the page."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from attune.emotion.taxonomy import EMOTIONS, polarity
from attune.errors import MissingError
from attune.evaluate.metrics import METRICS
from attune.evaluate.scores import Scores

INK, ACCENT, FAINT = "#22303c", "#2f6f8f", "#d5dde3"
PLOTTED = ("emotion_accuracy", "ppl_token", "ppl_reply_macro", "dist_1", "dist_2", "avg_bleu", "ses")


def intervals(scores: Sequence[Scores], metrics: Sequence[str] = PLOTTED) -> str:
    """One small panel a metric: a dot for each run's value, a line for its 95 % interval."""
    shown = [name for name in metrics if any(one.value(name) is not None for one in scores)]
    if not shown:
        return ""
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    with _drawing("intervals", (3.6 * columns, lines * (0.9 + 0.32 * len(scores)))) as (figure, svg):
        axes = figure.subplots(lines, columns, sharey=True, squeeze=False)
        _panels(axes, scores, shown)
    return svg[0]


def _panels(axes: Any, scores: Sequence[Scores], shown: Sequence[str]) -> None:
    for axis, name in zip(axes.flat, shown, strict=False):
        for y, one in enumerate(reversed(scores)):
            score = one.metrics.get(name)
            if score is None or score.value is None:
                continue
            if score.low is not None and score.high is not None:
                axis.plot([score.low, score.high], [y, y], color=ACCENT, linewidth=2, solid_capstyle="round")
            axis.plot([score.value], [y], "o", color=ACCENT, markersize=5)
        axis.set_yticks(range(len(scores)), [one.title for one in reversed(scores)])
        axis.set_ylim(-0.6, len(scores) - 0.4)
        arrow = {"higher": " →", "lower": " ←", "neither": ""}[METRICS[name].better]
        _plain(axis, METRICS[name].title + arrow)
        axis.grid(axis="x", color=FAINT, linewidth=0.8)
        axis.locator_params(axis="x", nbins=4)
    for axis in list(axes.flat)[len(shown) :]:
        axis.set_visible(False)


def against(found: Sequence[tuple[float, Scores]], key: str, metrics: Sequence[str] = PLOTTED) -> str:
    """One small panel a metric: its value, with its 95 % interval, over the values of a setting."""
    shown = [name for name in metrics if sum(one.value(name) is not None for _, one in found) > 1]
    if not shown:
        return ""
    columns = min(3, len(shown))
    lines = -(-len(shown) // columns)
    with _drawing(f"against {key}", (3.6 * columns, 2.6 * lines)) as (figure, svg):
        axes = figure.subplots(lines, columns, squeeze=False)
        for axis, name in zip(axes.flat, shown, strict=False):
            having = [(value, one.metrics[name]) for value, one in found if one.value(name) is not None]
            x, y = [value for value, _ in having], [score.value for _, score in having]
            for value, score in having:
                if score.low is not None and score.high is not None:
                    axis.plot([value] * 2, [score.low, score.high], color=ACCENT, linewidth=2, alpha=0.4)
            axis.plot(x, y, "o-", color=ACCENT, markersize=5, linewidth=1.2)
            for value, score in having:
                axis.annotate(
                    f"{score.value:.{METRICS[name].digits}f}",
                    (value, score.value),
                    textcoords="offset points",
                    xytext=(6, 5),
                )
            axis.set_xticks(sorted(set(x)))
            axis.margins(x=0.12, y=0.18)
            axis.set_xlabel(key.rpartition(".")[2])
            _plain(axis, METRICS[name].title)
            axis.grid(axis="y", color=FAINT, linewidth=0.8)
        for axis in list(axes.flat)[len(shown) :]:
            axis.set_visible(False)
    return svg[0]


def _plain(axis: Any, title: str) -> None:
    axis.set_title(title, loc="left", fontsize=9, color=INK)
    axis.set_axisbelow(True)
    axis.tick_params(length=0)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.spines["bottom"].set_color(FAINT)


def confusion(one: Scores) -> str:
    """A run's confusion matrix, each gold emotion's row as shares; positive emotions first."""
    if one.confusion is None:
        return ""
    order = sorted(range(len(EMOTIONS)), key=lambda i: (polarity(EMOTIONS[i]) == "negative", EMOTIONS[i]))
    counts = np.array(one.confusion, dtype=float)[np.ix_(order, order)]
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    names = [EMOTIONS[i] for i in order]
    with _drawing(f"confusion {one.title}", (7.6, 7.2)) as (figure, svg):
        axis = figure.subplots()
        axis.imshow(shares, cmap="PuBu", vmin=0, vmax=max(0.5, float(shares.max())), interpolation="nearest")
        axis.set_xticks(range(len(names)), names, rotation=90, fontsize=6.5)
        axis.set_yticks(range(len(names)), names, fontsize=6.5)
        axis.set_xlabel("predicted")
        axis.set_ylabel("gold")
        axis.tick_params(length=0)
        for side in axis.spines.values():
            side.set_color(FAINT)
    return svg[0]


def confused_pairs(one: Scores, most: int = 5) -> list[tuple[str, str, int]]:
    """The commonest mistakes: (gold, predicted, count)."""
    if one.confusion is None:
        return []
    counts = np.array(one.confusion)
    np.fill_diagonal(counts, 0)
    best = np.argsort(-counts, axis=None, kind="stable")[:most]
    pairs = [(int(i), int(j)) for i, j in zip(*np.unravel_index(best, counts.shape), strict=True)]
    return [(EMOTIONS[i], EMOTIONS[j], int(counts[i, j])) for i, j in pairs if counts[i, j]]


_LOOK: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.size": 8,
    "svg.fonttype": "none",
    "text.color": INK,
    "axes.labelcolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
}


@contextmanager
def _drawing(salt: str, size: tuple[float, float]) -> Iterator[tuple[Any, list[str]]]:
    """A figure to draw on, and a list that then holds it as an <svg> element; the same scores always give the same text."""
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingError("figures need matplotlib: pip install 'attune-dialogue[train]'") from None
    with matplotlib.rc_context({**_LOOK, "svg.hashsalt": salt}):
        figure, drawn = Figure(figsize=size), io.StringIO()
        svg: list[str] = []
        yield figure, svg
        figure.tight_layout()
        figure.savefig(drawn, format="svg", metadata={"Date": None}, transparent=True)
    svg.append(drawn.getvalue()[drawn.getvalue().index("<svg") :])
