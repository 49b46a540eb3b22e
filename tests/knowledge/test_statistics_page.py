from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from attune.emotion.taxonomy import EMOTIONS, INTENTS, LABELS
from attune.knowledge.overlap import KnowledgeStatistics
from attune.knowledge.statistics import EmotionRow, EmotionStatistics, Transitions, printed_figure
from attune.knowledge.statistics_page import FAMILIES, ORDER, emotion_page, knowledge_page, percent
from tests.knowledge.test_page import Outline

FLOW = Transitions.of([("sad", "sad")] * 30 + [("sad", "consoling")] * 10 + [("anxious", "confident")] * 40)


def as_printed(**instead: tuple[str, ...]) -> EmotionStatistics:
    """A corpus that shows what seed 003 prints, but for the listener words of some emotions."""
    rows = tuple(
        EmotionRow(
            emotion,
            100,
            paper["share"] / 100,
            tuple((word, 5) for word in paper["speaker"]),
            tuple((word, 5) for word in instead.get(emotion, paper["listener"])),
        )
        for emotion, paper in printed_figure().items()
    )
    return EmotionStatistics("ed", "train", 3_200, rows, FLOW)


def test_a_corpus_like_the_papers_agrees_with_it_and_other_words_are_dotted() -> None:
    assert as_printed().agreement == (192, 192, 32, 32)
    assert 'class="other"' not in emotion_page(as_printed())
    html = emotion_page(as_printed(sad=("sorry", "<b>", "hear")))
    assert "191 of its 192 words" in html
    assert 'class="other">&lt;b&gt;</span>' in html
    assert html.count('class="other"') == 1


def test_the_page_of_emotions_shows_rows_words_and_both_maps() -> None:
    seen = Outline(emotion_page(as_printed()))
    shown = "".join(seen.texts)
    assert percent(0.051) in shown
    assert seen.tags.count("svg") == 2
    assert f"anxious → confident: {percent(1)} (40 of 40)" in shown
    assert f"sad → consoling: {percent(0.25)} (10 of 40)" in shown
    assert f"mirrors the speaker's in {percent(30 / 70)}" in shown


def test_pages_stand_alone() -> None:
    for html in (
        emotion_page(as_printed()),
        knowledge_page(KnowledgeStatistics("ed", None, "conceptnet4", "0" * 64, 1, 0, 1)),
    ):
        assert not {"script", "link", "img", "iframe", "a"} & set(Outline(html).tags)
        assert html.replace("http-equiv", "").count("http") == html.count('xmlns="http://www.w3.org/2000/svg"')


def test_what_is_absent_is_left_out() -> None:
    only_labels = Outline(emotion_page(EmotionStatistics("dd", "test", 9, (), FLOW)))
    assert only_labels.tags.count("svg") == 2
    assert "Emotions and their words" not in "".join(only_labels.texts)
    row = EmotionRow("<i>sad</i>", 9, 1.0, (("dog", 3),), ())
    only_emotions = Outline(emotion_page(EmotionStatistics("mine", None, 9, (row,), None)))
    assert "svg" not in only_emotions.tags
    assert "i" not in only_emotions.tags
    assert "<i>sad</i>" in "".join(only_emotions.texts)


def test_emotions_that_are_alike_stand_together() -> None:
    assert sorted(ORDER) == sorted(EMOTIONS)
    changes = sum(one != other for one, other in pairwise(FAMILIES))
    assert changes == len(set(FAMILIES)) - 1
    assert set(INTENTS) | set(EMOTIONS) < set(LABELS)


def test_the_page_of_knowledge_shows_the_shares_beside_the_papers() -> None:
    found = KnowledgeStatistics("ed", None, "conceptnet4", "0" * 64, 10, 1, 50, 5, 20, 15)
    found.history_bins = np.array([6, 0, 4, *[0] * 8])
    found.one_hop_bins = np.array([3, 0, 0, 0, 7, *[0] * 6])
    seen = Outline(knowledge_page(found))
    shown = "".join(seen.texts)
    for share in (5 / 50, 15 / 50, 30 / 50, 20 / 50, 4 / 10, 7 / 10, 0.005, 0.801):
        assert percent(share) in shown
    assert seen.tags.count("svg") == 2  # for a wide and for a narrow window


@pytest.mark.parametrize(("share", "shown"), [(0.0, "0.0\xa0%"), (0.1234, "12.3\xa0%"), (1.0, "100.0\xa0%")])
def test_per_cent_has_one_place(share: float, shown: str) -> None:
    assert percent(share) == shown
