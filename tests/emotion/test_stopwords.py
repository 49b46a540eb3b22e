from __future__ import annotations

from pathlib import Path

from attune.emotion.stopwords import NLTK_STOP_WORDS, SPACY_STOP_WORDS, STOP_WORDS


def test_both_lists_are_whole() -> None:
    assert (len(NLTK_STOP_WORDS), len(SPACY_STOP_WORDS), len(STOP_WORDS)) == (179, 326, 382)


def test_each_list_has_words_that_the_other_lacks() -> None:
    assert "wouldn't" in NLTK_STOP_WORDS - SPACY_STOP_WORDS
    assert {"n't", "became", "alone"} <= SPACY_STOP_WORDS - NLTK_STOP_WORDS
    assert not {"cancer", "fear", "nice"} & STOP_WORDS


def test_the_notice_of_origin_is_no_word() -> None:
    assert all(len(word.split()) == 1 and not word.startswith("#") for word in STOP_WORDS)


def test_nltks_list_is_the_published_one(data_dir: Path) -> None:
    assert set((data_dir / "stopwords" / "nltk_english.txt").read_text(encoding="utf-8").split()) == NLTK_STOP_WORDS
