from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from attune.knowledge.explain import explain, turns_of
from attune.knowledge.overlap import KnowledgeStatistics
from attune.knowledge.statistics import EmotionStatistics
from attune.knowledge.terminal import bar, show_emotions, show_explanation, show_knowledge
from tests.knowledge.test_statistics_page import FLOW, as_printed


def console(width: int = 80) -> Console:
    return Console(file=io.StringIO(), width=width, highlight=False)


def printed(to: Console) -> str:
    assert isinstance(to.file, io.StringIO)
    return to.file.getvalue()


@pytest.mark.parametrize("width", [40, 80, 200])
def test_an_explanation_is_printed_with_all_its_parts(width: int) -> None:
    said, to = explain(turns_of(["I fear it must be cancer.", "How awful!"])), console(width)
    show_explanation(said, to)
    text = printed(to)
    assert "speaker: I fear·" in text
    assert "listener: How awful·" in text
    flat = " ".join(text.split())
    for part in ("Emotion words", "Keywords", "Concepts", "Emotional context graph", "CLS ↔ every vertex"):
        assert part in flat
    if width == 200:
        assert "cancer <is a> disease" in flat
        assert f"{said.concepts[0].score:.2f}" in flat


def test_markup_in_a_text_is_printed_as_it_is() -> None:
    to = console(200)
    show_explanation(explain(turns_of(["[i]sad[/i] \x1b[31m [/nothing]"])), to)
    assert "[i]sad" in printed(to)
    assert "[/nothing]" in printed(to)
    assert "\x1b" not in printed(to)


def test_nothing_found_is_said() -> None:
    to = console(200)
    show_explanation(explain(turns_of(["😀"])), to)
    assert "there is little to show" in printed(to)


@given(st.floats(-1, 1), st.integers(1, 40))
def test_a_bar_is_as_long_as_its_share(share: float, width: int) -> None:
    length = len(bar(share, width).plain)
    assert abs(length - max(share, 0) * width) <= 1


def test_emotions_are_printed_with_the_comparison() -> None:
    to = console(160)
    show_emotions(as_printed(), to)
    assert "32 of its 32 shares and 192 of its 192 words" in printed(to)
    assert "anxious → confident" in printed(to)
    show_emotions(EmotionStatistics("dd", None, 3, (), FLOW), to)


def test_knowledge_is_printed_beside_the_paper() -> None:
    to = console(160)
    show_knowledge(KnowledgeStatistics("ed", "test", "conceptnet4", "0" * 64, 10, 1, 50, 5, 20, 15), to)
    assert "10.0\xa0%" in printed(to)
    assert "80.1\xa0%" in printed(to)
