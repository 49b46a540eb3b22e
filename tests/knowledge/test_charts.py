from __future__ import annotations

import numpy as np
import pytest

from attune.knowledge.charts import heat_map, histogram
from attune.knowledge.page import Node


def cells(drawing: Node) -> list[Node]:
    return [part for part in drawing.iter("g") if part.get("class", "").startswith("cell")]


def small(shares: list[list[float]]) -> Node:
    names = ["sad", "proud"]
    return heat_map(
        np.array(shares), names, names, name="m", title="t", about="a", tell=lambda i, j: f"{names[i]} → {names[j]}"
    )


def test_every_cell_says_what_it_is_and_large_shares_are_printed() -> None:
    drawing = small([[0.91, 0.09], [0.3, 0.7]])
    assert [cell.findtext("title") for cell in cells(drawing)] == [
        "sad → sad",
        "sad → proud",
        "proud → sad",
        "proud → proud",
    ]
    assert [cell.findtext("text") for cell in cells(drawing)] == ["91", None, "30", "70"]


def test_the_diagonal_of_a_square_map_is_framed() -> None:
    assert [cell.get("class") for cell in cells(small([[1, 0], [0, 1]]))] == ["cell same", "cell", "cell", "cell same"]


def test_the_tint_grows_with_the_share_and_an_empty_map_is_no_error() -> None:
    tints = [float(cell.get("style", "").removeprefix("--i:")) for cell in cells(small([[0.1, 0.2], [0.4, 0.8]]))]
    assert tints == sorted(tints)
    assert tints[-1] == 1
    assert {cell.get("style") for cell in cells(small([[0, 0], [0, 0]]))} == {"--i:0.000"}


def test_a_group_stands_apart_from_the_one_before() -> None:
    names = ["a", "b", "c"]
    drawing = heat_map(
        np.eye(3), names, names, name="m", title="t", about="a", tell=lambda i, j: "", breaks=[2], cell=(20, 20)
    )
    x = [float(cell.find("rect").get("x", 0)) for cell in cells(drawing)[:3]]  # type: ignore[union-attr]
    assert (x[1] - x[0], x[2] - x[1]) == pytest.approx((20, 24), abs=0.11)


@pytest.mark.parametrize("width", [350.0, 920.0])
def test_columns_are_as_tall_as_their_shares_and_stay_inside(width: float) -> None:
    drawing = histogram(
        [("two", [0.6, 0.3]), ("three", [0.0, 0.15])],
        ["none", "all"],
        name="h",
        title="t",
        about="a",
        width=width,
        height=300,
    )
    bars = [part.find("rect") for part in drawing.iter("g")]
    tall = [float(bar.get("height", 0)) for bar in bars if bar is not None]
    assert tall[0] == pytest.approx(2 * tall[2], abs=0.2)
    assert tall[2] == pytest.approx(2 * tall[3], abs=0.2)
    for bar in bars:
        assert bar is not None
        assert 0 <= float(bar.get("x", 0)) <= width - float(bar.get("width", 0))
    assert [part.findtext("title") for part in drawing.iter("g")] == ["60.0 %", "0.0 %", "30.0 %", "15.0 %"]


def test_drawings_have_a_title_and_a_description() -> None:
    for drawing in (small([[1, 0], [0, 1]]), histogram([("two", [1.0])], ["x"], name="m", title="t", about="a")):
        assert drawing.get("role") == "img"
        assert drawing.get("aria-labelledby") == "m-title m-about"
        assert (drawing.findtext("title"), drawing.findtext("desc")) == ("t", "a")
