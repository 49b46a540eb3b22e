from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.emotion.lexicons import LEXICONS, EmotionLexicon, VadLexicon, load_emotion_lexicon, load_vad
from attune.errors import MissingError, SettingsError

unit = st.floats(0, 1)
lexicons = st.dictionaries(st.text("abcdef", min_size=1), st.tuples(unit, unit, unit), min_size=1)


@pytest.fixture(scope="module")
def nrc(data_dir: Path) -> VadLexicon:
    return load_vad(data_dir / "nrc_vad" / "VAD.json")


@given(lexicons)
def test_intensity_is_between_0_and_1_and_reaches_both(words: dict[str, tuple[float, float, float]]) -> None:
    lexicon = VadLexicon(words, name="some", licence="")
    found = [lexicon.intensity(word) for word in words]
    assert all(0 <= value <= 1 for value in found)
    assert min(found) == 0
    assert max(found) in (0, 1)


@given(lexicons)
def test_intensity_is_the_papers_formula(words: dict[str, tuple[float, float, float]]) -> None:
    lexicon = VadLexicon(words, name="some", licence="")
    norms = {word: math.sqrt((v - 0.5) ** 2 + (a / 2) ** 2) for word, (v, a, _) in words.items()}
    low, high = min(norms.values()), max(norms.values())
    for word, norm in norms.items():
        if high - low > 1e-6:
            assert lexicon.intensity(word) == pytest.approx((norm - low) / (high - low), abs=1e-6)


def test_an_unknown_word_gets_the_default_of_either_paper() -> None:
    lexicon = VadLexicon({"nice": (0.93, 0.442, 0.65)}, name="some", licence="")
    assert lexicon.intensity("nowhere") == 0.0  # seed 001
    assert lexicon.intensity("nowhere", unknown=0.5) == 0.5  # seed 000
    assert "nowhere" not in lexicon
    with pytest.raises(KeyError):
        lexicon["nowhere"]


def test_case_does_not_matter_and_the_lower_case_entry_counts() -> None:
    lexicon = VadLexicon({"turkey": (0.6, 0.4, 0.5), "Turkey": (0.1, 0.1, 0.1)}, name="some", licence="")
    assert lexicon["TURKEY"] == (0.6, 0.4, 0.5)
    assert len(lexicon) == 1


def test_the_papers_examples_of_nrc_vad_hold(nrc: VadLexicon) -> None:
    assert nrc["nice"] == pytest.approx((0.93, 0.442, 0.65))  # seed 001
    assert nrc["happiness"] == pytest.approx((0.960, 0.732, 0.850))  # seed 000
    assert len(nrc) == 20_007
    assert nrc.name == "nrc-vad-1"
    intensities = [nrc.intensity(word) for word in nrc]
    assert (min(intensities), max(intensities)) == (0.0, 1.0)


def test_version_2_of_nrc_vad_is_rescaled_to_the_same_values(data_dir: Path, nrc: VadLexicon) -> None:
    second = load_vad(data_dir / "nrc_vad" / "NRC-VAD-Lexicon-v2.1.txt")
    assert second.name == "nrc-vad-2"
    assert len(second) == 54_801
    assert second["nice"] == pytest.approx(nrc["nice"], abs=0.002)
    assert "a bit" in second


def test_nrc_vad_is_found_by_name_in_the_data_folder(nrc: VadLexicon) -> None:
    assert load_vad("nrc-vad")["nice"] == nrc["nice"]


def test_the_default_is_the_warriner_norms_in_0_to_1() -> None:
    lexicon = load_vad()
    assert lexicon.name == "warriner"
    assert len(lexicon) > 13_900
    assert all(0 <= value <= 1 for word in lexicon for value in lexicon[word])
    assert lexicon["aardvark"] == pytest.approx(((6.26 - 1) / 8, (2.41 - 1) / 8, (4.27 - 1) / 8))
    assert lexicon.intensity("terrorism") > 0.8 > 0.4 > lexicon.intensity("square")
    assert "research" in lexicon.licence


def test_the_default_emotion_lexicon_is_nrcs() -> None:
    lexicon = load_emotion_lexicon()
    assert len(lexicon) == 6_468
    assert lexicon["abandon"] == {"fear", "negative", "sadness"}
    assert "table" not in lexicon


def test_a_lexicon_is_loaded_once() -> None:
    assert load_vad() is load_vad("warriner")
    assert load_emotion_lexicon() is load_emotion_lexicon()


def test_a_missing_lexicon_is_named_with_where_how_and_the_default(tmp_path: Path) -> None:
    with pytest.raises(MissingError) as error:
        load_vad(tmp_path / "VAD.json")
    for part in (str(tmp_path / "VAD.json"), "saifmohammad.com", "default lexicon 'warriner' serves"):
        assert part in str(error.value)
    with pytest.raises(MissingError, match="did you mean 'warriner'"):
        load_vad("warrinr")
    with pytest.raises(MissingError, match="default lexicon 'nrc-emotion' serves"):
        load_emotion_lexicon(tmp_path / "emolex.txt")


def test_nrc_vad_by_name_without_a_data_folder_says_where_it_looked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTUNE_DATA", str(tmp_path))
    with pytest.raises(MissingError, match=r"looked for VAD.json, .* in .*nrc_vad"):
        LEXICONS["nrc-vad"]()


def test_one_kind_of_lexicon_does_not_pass_for_the_other() -> None:
    with pytest.raises(SettingsError, match="no valence"):
        load_vad("nrc-emotion")
    with pytest.raises(SettingsError, match="no emotions"):
        load_emotion_lexicon("warriner")


def test_a_lexicon_of_ones_own_is_one_registration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LEXICONS, "_entries", dict(LEXICONS._entries))

    @LEXICONS.register("tiny")
    def tiny() -> VadLexicon:
        return VadLexicon({"calm": (0.8, 0.1, 0.6)}, name="tiny", licence="CC0")

    assert load_vad("tiny")["calm"] == (0.8, 0.1, 0.6)


@given(st.dictionaries(st.text("abc", min_size=1), st.sets(st.sampled_from(["fear", "joy"]))))
def test_an_emotion_lexicon_gives_back_what_it_was_made_of(words: dict[str, set[str]]) -> None:
    lexicon = EmotionLexicon(words, name="some", licence="")
    assert {word: set(lexicon[word]) for word in lexicon} == words
