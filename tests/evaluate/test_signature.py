"""Signatures: read back as they were written, and compared field by field."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.errors import DataError
from attune.evaluate.signature import Signature

WORDS = st.text(st.characters(exclude_characters="|", exclude_categories=["C", "Z"]), max_size=20)
SIGNATURES = st.builds(
    Signature,
    protocol=WORDS,
    split=WORDS,
    n=st.integers(0, 10**7),
    text=WORDS,
    vocabulary=WORDS,
    oov=st.none() | st.floats(0, 100),
    decoding=WORDS.map(lambda word: f"{word} (a: b)"),
    seed=st.integers(-5, 10**9),
    attune=WORDS,
)


@given(SIGNATURES)
def test_a_signature_is_read_back_as_it_was_written(signature: Signature) -> None:
    assert Signature.parse(str(signature)) == signature


@given(SIGNATURES, SIGNATURES)
def test_different_signatures_are_different_lines(one: Signature, other: Signature) -> None:
    assert (str(one) == str(other)) == (one == other)


@pytest.mark.parametrize("text", ["", "protocol:x", "a|b|c", str(Signature("p", "test", 3)).replace("n:3", "n:three")])
def test_what_is_no_signature_is_refused(text: str) -> None:
    with pytest.raises(DataError, match="not a signature"):
        Signature.parse(text)


@pytest.mark.parametrize("value", ["a|b", "a\nb"])
def test_a_value_that_would_break_the_line_is_refused(value: str) -> None:
    with pytest.raises(DataError, match="cannot hold"):
        Signature("listener-turns-v1", "test", 3, decoding=value)


def test_only_the_fields_that_matter_are_compared() -> None:
    one = Signature("p", "test", 3, vocabulary="train-10", decoding="greedy")
    other = Signature("p", "test", 3, vocabulary="train-20", decoding="beam", seed=7)
    assert one.differs(other, {"protocol", "vocabulary"}) == ["vocabulary"]
    assert one.differs(other, {"decoding", "vocabulary"}) == ["vocabulary", "decoding"]
    assert one.differs(other, {"split", "n"}) == []
