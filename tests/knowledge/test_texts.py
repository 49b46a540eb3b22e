from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from attune.knowledge.texts import Texts, different, text_hash

some_texts = st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=30)


@given(some_texts)
def test_packed_texts_come_out_as_they_went_in(texts: list[bytes]) -> None:
    assert list(Texts.of(texts)) == texts
    assert list(Texts.joined([Texts.of(texts), Texts.of(texts)])) == texts * 2
    order = np.arange(len(texts))[::-1]
    assert list(Texts.of(texts).taken(order)) == texts[::-1]


@given(some_texts)
def test_the_hash_of_one_text_is_its_hash_among_many(texts: list[bytes]) -> None:
    assert [text_hash(text) for text in texts] == Texts.of(texts).hashes()[0].tolist()


def test_the_hash_never_changes_as_indexes_on_disk_are_ordered_by_it() -> None:
    assert text_hash(b"fear") == 16342577683531527432


@given(some_texts)
def test_different_keeps_one_of_each_and_says_where(texts: list[bytes]) -> None:
    key, check = Texts.of(texts).hashes()
    chosen, places = different(key, check)
    kept = [texts[i] for i in chosen]
    assert sorted(kept) == sorted(set(texts))
    assert [kept[place] for place in places] == texts


def test_two_texts_with_one_hash_stay_two() -> None:
    key = np.array([7, 7, 7, 3], dtype=np.uint64)
    check = np.array([1, 2, 1, 1], dtype=np.uint64)
    chosen, places = different(key, check)
    assert len(chosen) == 3
    assert places[0] == places[2] != places[1]
