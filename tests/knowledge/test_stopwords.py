from __future__ import annotations

import pytest

from attune.knowledge.stopwords import STOP_WORDS, same_stem, stem


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("addition", "addition"),
        ("actual", "actually"),
        ("Fear", "fears"),
        ("blood cells", "blood_cell"),
        ("coughing", "cough"),
    ],
)
def test_the_same_word_and_its_forms_have_one_stem(a: str, b: str) -> None:
    assert same_stem(a, b)


@pytest.mark.parametrize(("a", "b"), [("fear", "panic"), ("blood", "blood cell"), ("cancer", "disease")])
def test_words_of_the_papers_example_have_different_stems(a: str, b: str) -> None:
    assert not same_stem(a, b)


def test_a_phrase_is_stemmed_word_by_word() -> None:
    assert stem("Happy Birthdays") == "happi birthday"
    assert stem("") == ""


def test_stop_words_are_the_union_of_two_lists() -> None:
    assert {"wouldn't", "became"} <= STOP_WORDS
