"""What is perceived is the perceiver's opinion and the decoder's, and is worked out once for each context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from attune.dialogue.types import Context, Dialogue, Turn
from attune.emotion.taxonomy import EMOTIONS, LABELS
from attune.generate.attune import GRACE
from attune.generate.controls import ContextControls, Ear, normalised
from attune.generate.saying import Ask
from attune.generate.settings import Decoding
from attune.models.prompt import NOTHING_KNOWN, Control
from tests.systems import small_system

CONTEXT = (Turn("speaker", "My dog died."), Turn("listener", "Oh no."), Turn("speaker", "He was old."))
SAD, ANGRY = EMOTIONS.index("sad"), EMOTIONS.index("angry")


def peaked(place: int, height: float, width: int = len(EMOTIONS)) -> np.ndarray:
    found = np.full(width, (1 - height) / (width - 1))
    found[place] = height
    return found


class Perceiver:
    def __init__(self) -> None:
        self.asked: list[Context] = []

    def perceive(self, contexts: Sequence[Context]) -> np.ndarray:
        self.asked += contexts
        return np.array([peaked(SAD, 0.5) for _ in contexts])

    def decide(self, contexts: Sequence[Context]) -> np.ndarray:
        return np.array([peaked(0, 0.5, len(LABELS)) for _ in contexts])


def hearing(height: float) -> Any:
    def ear(contexts: Sequence[Context], controls: ContextControls) -> np.ndarray:
        controls.of([context[:1] for context in contexts if len(context) > 1])  # what came before is read with it
        return np.array([peaked(ANGRY, height) for _ in contexts])

    return ear


@pytest.mark.parametrize(("share", "height", "felt"), [(0.0, 0.9, "sad"), (0.5, 0.9, "angry"), (0.5, 0.2, "sad"), (1.0, 0.2, "angry")])  # fmt: skip
def test_the_surer_of_two_opinions_decides(share: float, height: float, felt: str) -> None:
    controls = ContextControls(Perceiver(), None, hearing(height), share)
    assert [control.emotion for control in controls.of([CONTEXT, CONTEXT[:1]])] == [felt, felt]
    told = controls.perceive([CONTEXT])
    assert told.shape == (1, 32)
    assert told.sum() == pytest.approx(1)
    assert EMOTIONS[int(told.argmax())] == felt
    assert controls.perceive([]).shape[0] == 0


def test_a_context_is_perceived_once() -> None:
    perceiver = Perceiver()
    controls = ContextControls(perceiver, None, hearing(0.9), 0.5)
    for _ in range(2):
        controls.perceive([CONTEXT, CONTEXT])
        controls.of([CONTEXT])
    assert sorted(map(len, perceiver.asked)) == [1, 3]


def test_a_conversation_whose_middle_left_the_window_is_known_again() -> None:
    perceiver = Perceiver()
    controls = ContextControls(perceiver, None)
    talk = tuple(Turn("listener" if i % 2 else "speaker", f"turn {i}") for i in range(9))
    known = controls.of([talk[:7], talk[:8]])
    perceiver.asked.clear()
    assert controls.of([(talk[0], *talk[3:7]), (talk[0], *talk[5:8])]) == known
    assert not perceiver.asked
    controls.of([talk[:6], (talk[1], *talk[3:7]), (talk[0], talk[4], talk[6])])
    assert len(perceiver.asked) == 3, "another opening, or other latest turns, are another conversation"


def test_what_somebody_asked_for_is_not_remembered_for_others(dialogues: list[Dialogue]) -> None:
    system = small_system("attune", dialogues)
    begun = CONTEXT[:1]
    predicted = system.controls.of([begun])
    before = system._prompt(CONTEXT, NOTHING_KNOWN)
    system.candidates([Ask(begun, Control("sad", "questioning", asked=True))])
    assert system.controls.of([begun]) == predicted
    assert system._prompt(CONTEXT, NOTHING_KNOWN) == before
    system.candidates([Ask(begun, Control("angry", "wishing"))])
    assert system.controls.of([begun]) == [Control("angry", "wishing")], "what the agent worked out is read again"


def test_who_has_said_enough_may_finish_the_sentence(dialogues: list[Dialogue]) -> None:
    system = small_system("attune", dialogues)
    pieces = ["I", " am", " sorry", ".", " Is", " he", " well", "?", " I", " hope", " so"]
    asked: list[int] = []

    def stream(prompt: Sequence[int], decoding: Decoding, seed: int = 0) -> Iterator[str]:
        asked.append(decoding.max_steps)
        yield from pieces

    system.engine = SimpleNamespace(stream=stream)
    said = {most: "".join(system.stream(Ask(CONTEXT, decoding=Decoding(max_steps=most)))) for most in (2, 4, 6, 30)}
    assert said == {2: "I am sorry.", 4: "I am sorry.", 6: "I am sorry. Is he well?", 30: "".join(pieces)}
    assert asked == [most + GRACE for most in said]


def test_probabilities_add_up_however_small_they_are() -> None:
    np.testing.assert_allclose(normalised(np.array([[-1000.0, -1000.0], [0.0, -2000.0]])), [[0.5, 0.5], [1.0, 0.0]])


def test_the_ear_of_a_decoder_reads_what_was_perceived_before(dialogues: list[Dialogue]) -> None:
    system = small_system("attune", dialogues)
    assert isinstance(system.controls.ear, Ear)
    read: list[list[int]] = []
    after = system.controls.ear.engine.after

    def heard(prompts: Sequence[Sequence[int]], tokens: Sequence[int]) -> np.ndarray:
        read.extend([list(prompt) for prompt in prompts])
        return after(prompts, tokens)

    system.controls.ear.engine.after = heard
    assert system.perceive([CONTEXT]).shape == (1, 32)
    before = system.controls.of([CONTEXT[:1]])
    shown = [system.codec.shown(one) for one in before]
    assert sorted(read, key=len) == [
        system.codec.prompts.asking(CONTEXT[:1], []),
        system.codec.prompts.asking(CONTEXT, shown),
    ]
    deaf = small_system("attune", dialogues, emotion_weight=0.0)
    np.testing.assert_array_equal(deaf.perceive([CONTEXT]), deaf.controls.perceiver.perceive([CONTEXT]))
