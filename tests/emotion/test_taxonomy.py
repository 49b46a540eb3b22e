from __future__ import annotations

import json
from pathlib import Path

import pytest

from attune.emotion.taxonomy import (
    DAILYDIALOG,
    EMOTIONS,
    INTENTS,
    LABELS,
    NEGATIVE,
    NEUTRAL,
    POSITIVE,
    TO_DAILYDIALOG,
    emotion_id,
    from_dailydialog,
    label_id,
    polarity,
)
from attune.errors import DataError


def test_there_are_32_emotions_8_intents_and_neutral_all_different() -> None:
    assert (len(EMOTIONS), len(INTENTS), len(LABELS)) == (32, 8, 41)
    assert len(set(LABELS)) == 41
    assert (*EMOTIONS, *INTENTS, NEUTRAL) == LABELS


def test_ids_are_the_ones_that_saved_runs_rely_on() -> None:
    assert list(EMOTIONS) == sorted(EMOTIONS)
    assert [emotion_id(name) for name in ("afraid", "joyful", "trusting")] == [0, 22, 31]
    assert [label_id(name) for name in ("agreeing", "questioning", "wishing", "neutral")] == [32, 38, 39, 40]


def test_polarity_groups_are_mimes_13_and_19() -> None:
    assert (len(POSITIVE), len(NEGATIVE)) == (13, 19)
    assert not POSITIVE & NEGATIVE
    assert set(EMOTIONS) == POSITIVE | NEGATIVE
    assert polarity("surprised") == "positive"
    assert {polarity(name) for name in ("anticipating", "nostalgic", "sentimental")} == {"negative"}


def test_every_label_has_a_dailydialog_emotion_and_intents_have_none_of_the_six() -> None:
    assert set(TO_DAILYDIALOG) == set(LABELS)
    assert {TO_DAILYDIALOG[name] for name in (*INTENTS, NEUTRAL)} == {0}
    assert {TO_DAILYDIALOG[name] for name in EMOTIONS} == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("number", range(7))
def test_dailydialog_emotions_survive_the_way_there_and_back(number: int) -> None:
    assert TO_DAILYDIALOG[from_dailydialog(number)] == number
    assert DAILYDIALOG[number] == ("no emotion", "anger", "disgust", "fear", "happiness", "sadness", "surprise")[number]


def test_unknown_names_get_the_nearest_known_one() -> None:
    with pytest.raises(DataError, match="did you mean 'joyful'"):
        emotion_id("joyfull")
    with pytest.raises(DataError, match="did you mean 'questioning'"):
        label_id("question")
    with pytest.raises(DataError, match="unknown DailyDialog emotion 7; expected one of 0 no emotion"):
        from_dailydialog(7)


def test_the_mapping_can_not_be_changed() -> None:
    with pytest.raises(TypeError):
        TO_DAILYDIALOG["sad"] = 0  # type: ignore[index]


def test_every_emotion_and_turn_label_of_the_corpus_is_known(ed_dir: Path) -> None:
    for line in (ed_dir / "valid.jsonl").read_text(encoding="utf-8").splitlines():
        dialogue = json.loads(line)
        assert emotion_id(dialogue["context"]) < 32
        assert all(label_id(turn["label"]) < 41 for turn in dialogue["utterances"] if turn["label"])
