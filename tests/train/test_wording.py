from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from attune.dialogue.types import Dialogue
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError
from attune.train.wording import fit_wording


def test_words_tell_the_emotions_they_were_said_with(dialogues: list[Dialogue]) -> None:
    wording = fit_wording(dialogues * 4)
    found = wording.perceive([dialogue.turns[:1] for dialogue in dialogues])
    assert [EMOTIONS[best] for best in found.argmax(-1)] == [dialogue.emotion for dialogue in dialogues]
    never = EMOTIONS.index("jealous")
    assert found[:, never].max() < 1e-6, "nobody was jealous"


def test_two_emotions_are_told_apart_too(dialogues: list[Dialogue]) -> None:
    wording = fit_wording(dialogues[:2] * 4)
    found = wording.perceive([dialogue.turns[:1] for dialogue in dialogues[:2]])
    assert [EMOTIONS[best] for best in found.argmax(-1)] == [dialogue.emotion for dialogue in dialogues[:2]]
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-5)


def test_one_emotion_alone_cannot_be_told_from_others(dialogues: list[Dialogue]) -> None:
    with pytest.raises(DataError, match="fewer than two emotions"):
        fit_wording([dialogues[0], replace(dialogues[1], emotion=None)])
