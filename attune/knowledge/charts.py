"""Drawings of counts: a heat map and a histogram, as SVG that takes its colours from the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from attune.knowledge.draw import text_width
from attune.knowledge.page import Node, node

_SVG = {"xmlns": "http://www.w3.org/2000/svg", "role": "img"}
_LETTERS = 11.0


def heat_map(
    shares: NDArray[np.float64],
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    name: str,
    title: str,
    about: str,
    tell: Callable[[int, int], str],
    cell: tuple[float, float] = (22.0, 19.0),
    breaks: Sequence[int] = (),
    least: float = 0.1,
) -> Node:
    """Shares as tinted cells, each with a title by `tell`; from `least` on also as a number of per cent.

    `breaks` are places between rows (and between columns, in a square map) where a new group starts.
    """
    wide, high = cell
    square = len(rows) == len(columns)
    left = max(text_width(row, _LETTERS) for row in rows) + 10
    top = max(text_width(column, _LETTERS) for column in columns) + 8
    x = [left + wide * j + (4.0 * sum(j >= place for place in breaks) if square else 0.0) for j in range(len(columns))]
    y = [top + high * i + 4.0 * sum(i >= place for place in breaks) for i in range(len(rows))]
    most = float(shares.max()) or 1.0
    parts = [node("text", {"x": left - 7, "y": at + high / 2 + 4, "class": "row"}, row) for row, at in zip(rows, y)]
    for column, at in zip(columns, x):
        middle, foot = at + wide / 2 + 4, top - 6
        parts.append(
            node("text", {"x": middle, "y": foot, "transform": f"rotate(-90 {middle:.1f} {foot:.1f})"}, column)
        )
    for i, j in np.ndindex(*shares.shape):
        share = float(shares[i, j])
        same = " same" if square and i == j else ""
        tint = (share / most) ** 0.6  # small shares stay visible
        box = {"x": x[j] + 0.5, "y": y[i] + 0.5, "width": wide - 1, "height": high - 1, "rx": 3}
        inside = [node("title", None, tell(i, j)), node("rect", box)]
        if share >= least:
            number = {"x": x[j] + wide / 2, "y": y[i] + high / 2 + 3.6, "class": _ink(tint)}
            inside.append(node("text", number, f"{100 * share:.0f}"))
        parts.append(node("g", {"class": f"cell{same}", "style": f"--i:{tint:.3f}"}, *inside))
    size = f"0 0 {x[-1] + wide + 1:.0f} {y[-1] + high + 1:.0f}"
    labels = {"aria-labelledby": f"{name}-title {name}-about"}
    return node(
        "svg",
        {**_SVG, "viewBox": size, "class": "heat", **labels},
        node("title", {"id": f"{name}-title"}, title),
        node("desc", {"id": f"{name}-about"}, about),
        *parts,
    )


def _ink(tint: float) -> str:
    """The class of a number on a cell, so that it can be read on a light and on a dark page."""
    return "deep" if tint > 0.87 else "mid" if tint > 0.65 else "pale"


def histogram(
    series: Sequence[tuple[str, Sequence[float]]],
    labels: Sequence[str],
    *,
    name: str,
    title: str,
    about: str,
    width: float = 920.0,
    height: float = 300.0,
    axis: str = "",
) -> Node:
    """Shares (0..1) as columns side by side; `series` are (class, shares), and `axis` says what the labels are."""
    left, right, top, foot = 40.0, 6.0, 16.0, 44.0
    ground = height - foot
    most = max(max(shares) for _, shares in series) or 1.0
    step = next(step for step in (0.05, 0.1, 0.2, 0.25, 1.0) if most / step <= 6)
    parts = []
    for line in range(int(most / step) + 1):
        at = ground - (ground - top) * line * step / most
        parts.append(node("path", {"d": f"M{left} {at:.1f}H{width - right}", "class": "line"}))
        parts.append(node("text", {"x": left - 7, "y": at + 4, "class": "row"}, f"{100 * line * step:.0f} %"))
    room = (width - left - right) / len(labels)
    thick = min(0.76 * room / len(series), 34.0)
    for place, label in enumerate(labels):
        middle = left + room * (place + 0.5)
        parts.append(node("text", {"x": middle, "y": ground + 18, "class": "below"}, label))
        for number, (kind, shares) in enumerate(series):
            tall = (ground - top) * shares[place] / most
            x = middle + (number - len(series) / 2) * thick
            box = {"x": x + 1, "y": ground - tall, "width": thick - 2, "height": max(tall, 0.5), "rx": 2.5}
            parts.append(
                node("g", {"class": kind}, node("title", None, f"{100 * shares[place]:.1f} %"), node("rect", box))
            )
    parts.append(node("text", {"x": (left + width - right) / 2, "y": height - 8, "class": "below"}, axis))
    return node(
        "svg",
        {
            **_SVG,
            "viewBox": f"0 0 {width:.0f} {height:.0f}",
            "class": "columns",
            "aria-labelledby": f"{name}-title {name}-about",
        },
        node("title", {"id": f"{name}-title"}, title),
        node("desc", {"id": f"{name}-about"}, about),
        *parts,
    )
