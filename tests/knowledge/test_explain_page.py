from __future__ import annotations

import pytest

from attune.knowledge.explain import Explanation, explain, turns_of
from attune.knowledge.explain_page import explanation_page, signed, strongest_words
from tests.knowledge.test_page import Outline


@pytest.fixture(scope="module")
def said() -> Explanation:
    return explain(turns_of(["I fear it must be cancer, a terrible cancer.", "How awful! I am so sorry."]))


def test_the_page_shows_every_word_keyword_and_concept_with_its_numbers(said: Explanation) -> None:
    text = " ".join("".join(Outline(explanation_page(said)).texts).split())
    for keyword in said.keywords:
        assert keyword.word in text
    for concept in said.concepts:
        assert str(concept) in text
        for value in (concept.intensity, concept.similarity, concept.confidence, concept.score):
            assert signed(value) in text
    for concept_vertex in said.graph.concepts:
        assert concept_vertex.concept in text


def test_emotion_words_are_marked_inside_their_turn(said: Explanation) -> None:
    html = explanation_page(said)
    assert html.count("<mark ") == sum(map(len, said.felt)) == 6
    fear = said.felt[0][0]
    assert (
        f'<mark class="unpleasant" style="--i:{fear.intensity:.2f}" title="fear: intensity {fear.intensity:.2f}, unpleasant'
        in html
    )


def test_the_page_asks_nothing_of_another_computer(said: Explanation) -> None:
    html = explanation_page(said)
    seen = Outline(html)
    assert not {"script", "link", "img", "iframe", "object", "a"} & set(seen.tags)
    assert not {"src", "href", "xlink:href"} & {name for name, _ in seen.attributes}
    assert html.replace("http-equiv", "").count("http") == html.count('xmlns="http://www.w3.org/2000/svg"') == 2
    assert [value for name, value in seen.attributes if name.startswith("on")] == []


@pytest.mark.parametrize(
    "attack",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)> sad',
        "</p></section><svg onload=alert(1)>",
        "sad' onmouseover='alert(1)",
        "${body} $title sad {0}",
        "<!-- sad --> ]]> </style>",
    ],
)
def test_what_a_person_writes_stays_text(attack: str) -> None:
    said = explain(turns_of([attack, f"so {attack}"]))
    seen = Outline(explanation_page(said))
    assert not {"script", "img"} & set(seen.tags)
    assert not {"onerror", "onload", "onmouseover", "src"} & {name for name, _ in seen.attributes}
    marks = sum(map(len, said.felt))
    assert seen.tags.count("mark") == marks
    assert seen.tags.count("svg") == 2
    shown = "".join(seen.texts)
    assert attack in shown or marks  # a mark's number stands in between


@pytest.mark.parametrize("text", ["😀", "أنا حزين", "..."])
def test_a_text_that_nothing_is_known_about_still_makes_a_page(text: str) -> None:
    shown = "".join(Outline(explanation_page(explain(turns_of([text])))).texts)
    assert text in shown
    assert "there is little to show" in shown


def test_a_long_text_says_how_much_of_it_is_drawn() -> None:
    html = explanation_page(explain(turns_of(["We lost our happy dog in the dark forest today. " * 1_000])))
    assert "Of 11,000 words, 160 are drawn" in html
    assert len(html) < 2_000_000


def test_words_that_occur_twice_are_listed_once_and_the_strongest_first(said: Explanation) -> None:
    words = strongest_words(said)
    assert [word.word for word in words].count("cancer") == 1
    assert [word.intensity for word in words] == sorted((word.intensity for word in words), reverse=True)
