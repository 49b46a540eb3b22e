from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.types import Turn
from attune.emotion.opinions import normalised, together
from attune.emotion.taxonomy import EMOTIONS
from attune.emotion.wording import Wording, terms
from attune.errors import DataError

KNOWN = ["alone", "dog died", "won", "!"]


def wording(seed: int = 0) -> Wording:
    draw = np.random.default_rng(seed)
    return Wording(KNOWN, draw.uniform(1, 5, 4), draw.normal(size=(4, 32)), draw.normal(size=32))


@given(st.text())
def test_a_text_has_one_pair_less_than_words_and_its_case_does_not_matter(text: str) -> None:
    found = terms(text)
    single = sum(count for term, count in found.items() if " " not in term)
    assert sum(found.values()) == max(0, 2 * single - 1)
    if text.isascii():
        assert terms(text.upper()) == found


@given(st.lists(st.text(alphabet="alone dgiwn!,", max_size=30), max_size=4))
def test_whatever_is_said_gets_probabilities(texts: list[str]) -> None:
    found = wording().perceive([(Turn("speaker", text),) for text in texts])
    assert found.shape == (len(texts), 32)
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


def test_a_text_without_known_terms_tells_what_is_common() -> None:
    one = wording()
    found = one.perceive([(Turn("speaker", "Zebras."),)])
    np.testing.assert_allclose(found[0], normalised(one.bias), rtol=1e-5)


def test_it_is_kept_in_eight_bits_and_says_nearly_the_same(tmp_path: Path) -> None:
    one = wording()
    one.save(tmp_path / "wording.safetensors")
    again = Wording.load(tmp_path / "wording.safetensors")
    assert list(again.known) == KNOWN
    contexts = [(Turn("speaker", "I won!"), Turn("listener", "Oh!")), (Turn("speaker", "My dog died, I am alone."),)]
    np.testing.assert_allclose(again.perceive(contexts), one.perceive(contexts), rtol=0.05)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "wording.safetensors"
    with pytest.raises(DataError, match=r"wording\.safetensors: not the weights of terms"):
        Wording.load(file)
    Wording(KNOWN[:2], np.ones(3), np.zeros((3, 32)), np.zeros(32)).save(file)
    with pytest.raises(DataError, match="2 terms and weights"):
        Wording.load(file)


def test_opinions_that_agree_are_surer_and_a_share_of_nothing_changes_nothing() -> None:
    one, other = (normalised(np.random.default_rng(seed).normal(size=(3, len(EMOTIONS)))) for seed in (1, 2))
    np.testing.assert_allclose(together(one, other, 0.0), one)
    np.testing.assert_allclose(together(one, other, 1.0), other)
    np.testing.assert_allclose(together(one, one, 0.3), one)
    assert together(one[:0], other[:0], 0.5).shape == (0, 32)
