from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.emotion.stopwords import read_words
from attune.knowledge.keywords import Keyword, candidates, keywords
from attune.parts import locate

FIGURE_2 = (
    "I am being in fear lately. oh no! Any particular reason why? "
    "I stared to cough blood 3 days ago and I fear it must be cancer."
)


def test_the_papers_dialogue_yields_its_keywords() -> None:
    found = [word for word, _ in keywords([FIGURE_2])[0]]
    assert set(found[:4]) == {"cancer", "cough", "fear", "blood"}


def test_scores_fall_are_above_0_and_are_at_most_the_asked_for_number() -> None:
    (found,) = keywords([FIGURE_2], top=5)
    assert len(found) == 5
    assert [keyword.score for keyword in found] == sorted((keyword.score for keyword in found), reverse=True)
    assert all(0 < score <= 1 for _, score in found)


def test_a_word_with_a_score_of_0_or_less_is_no_keyword() -> None:
    text = "my violin and the spreadsheet parabola tax xylem zebra quark"
    found = {word for word, _ in keywords([text], top=100)[0]}
    kept = {word for word, score in _scores(text).items() if round(score, 4) > 0}
    assert found == kept


def _scores(text: str) -> dict[str, float]:
    from attune.knowledge.sentences import load_encoder

    words = candidates(text)
    return dict(zip(words, (load_encoder().encode(words) @ load_encoder().encode([text])[0]).tolist()))


def test_texts_without_candidates_have_no_keywords_and_do_not_disturb_the_others() -> None:
    alone = keywords([FIGURE_2])[0]
    many = keywords(["", FIGURE_2, "the and of", "!!!", "I am at it."])
    assert [len(found) > 0 for found in many] == [False, True, False, False, False]
    assert [word for word, _ in many[1]] == [word for word, _ in alone]
    assert [score for _, score in many[1]] == pytest.approx([score for _, score in alone], abs=2e-4)
    assert keywords([]) == []


@given(st.text())
def test_candidates_are_distinct_lower_case_words_of_the_text_without_stop_words(text: str) -> None:
    found = candidates(text)
    assert found == sorted(set(found))
    left_out = read_words("attune.knowledge", "stopwords_sklearn.txt")
    assert all(word in text.lower() and len(word) > 1 and word not in left_out for word in found)


def test_a_keyword_is_a_pair() -> None:
    word, score = Keyword("fear", 0.4)
    assert (word, score) == ("fear", 0.4)


@pytest.mark.slow
@given(st.lists(st.text(max_size=80), min_size=1, max_size=4))
def test_candidates_are_those_of_scikit_learn(texts: list[str]) -> None:
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

    assert read_words("attune.knowledge", "stopwords_sklearn.txt") == ENGLISH_STOP_WORDS
    analyse = CountVectorizer(stop_words="english").build_analyzer()
    for text in texts:
        assert candidates(text) == sorted(set(analyse(text)))


@pytest.mark.slow
def test_keywords_are_the_ones_keybert_gives(ed_dir: Path) -> None:
    from keybert import KeyBERT
    from sentence_transformers import SentenceTransformer

    with open(ed_dir / "valid.csv", encoding="utf-8") as file:
        rows = [row.split(",") for row in list(file)[1:400:4]]
    texts = [FIGURE_2, *(row[5].replace("_comma_", ",") for row in rows)]
    reference = KeyBERT(SentenceTransformer(str(locate("minilm")), device="cpu"))
    expected = reference.extract_keywords(texts, keyphrase_ngram_range=(1, 1), stop_words="english", top_n=10)
    for text, found, theirs in zip(texts, keywords(texts), expected):
        positive = [(word, score) for word, score in theirs if score > 0]
        assert [word for word, _ in found] == [word for word, _ in positive], text
        assert [score for _, score in found] == pytest.approx([score for _, score in positive], abs=2e-4)
