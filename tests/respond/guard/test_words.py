from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.respond.guard.words import Reader, load_reader, real_words


@pytest.fixture(scope="module")
def reader() -> Reader:
    return load_reader()


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("I WANT TO DIE", "i want to die"),
        ("I don’t want this", "i do not want this"),
        ("i dont wanna", "i do not want to"),
        ("can't, won't, shan't", "can not , will not , shall not"),
        ("she's my dad's friend", "she is my dad friend"),
        ("im gonna kms rn", "i am going to kill myself right now"),
        ("su1cide", "suicide"),
        ("k*ll and d!e", "kill and die"),
        ("k i l l", "kill"),
        ("k.i.l.l", "kill"),
        ("dieeeeee", "die"),
        ("sucide", "suicide"),
        ("mysefl", "myself"),
        ("i wnat to", "i want to"),
        ("ｋｉｌｌ", "kill"),
        ("kіll", "kill"),  # a Cyrillic letter
        ("ki\u200bll", "kill"),
        ("", ""),
        ("...", "..."),
    ],
)
def test_a_text_is_read_as_plain_words(reader: Reader, written: str, read: str) -> None:
    assert reader.read(written) == read


@pytest.mark.parametrize(
    "word", ["willing", "curt", "stable", "hunting", "paris", "skill", "diet", "shooter", "raspberry"]
)
def test_a_real_word_is_not_taken_for_a_misspelling(reader: Reader, word: str) -> None:
    assert reader.read(word) == word


def test_of_two_words_that_are_near_the_commoner_one_is_meant() -> None:
    assert Reader(["house", "horse"], set(), spelt={}, hidden=[]).read("hoxse") == "house"
    assert Reader(["horse", "house"], set(), spelt={}, hidden=[]).read("hoxse") == "horse"


def test_a_missing_letter_is_likelier_than_one_too_many() -> None:
    assert Reader(["that", "throat"], set(), spelt={}, hidden=[]).read("thoat") == "throat"


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    read = load_reader().read(text)
    assert read == read.lower()
    assert "  " not in read


def test_a_very_long_text_is_read_at_both_ends_and_quickly(reader: Reader) -> None:
    start = time.process_time()
    read = reader.read("start " + "word " * 200_000 + " end")
    assert read.startswith("start")
    assert read.endswith("end")
    assert time.process_time() - start < 2


def test_the_real_words_are_many() -> None:
    assert len(real_words()) > 20_000
    assert "myself" in real_words()
