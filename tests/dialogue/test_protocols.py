from __future__ import annotations

from pathlib import Path

import pytest

from attune.dialogue.protocols import PROTOCOLS, Protocol, examples
from attune.dialogue.readers import read
from attune.dialogue.types import Dialogue, Turn
from attune.errors import SettingsError

S, L = Turn("speaker", "s"), Turn("listener", "l")


@pytest.mark.parametrize(
    ("protocol", "counts"),
    [("listener-turns", (40254, 5738, 5259)), ("feedback", (20723, 2969, 2712)), ("all-turns", (64636, 9308, 8426))],
)
def test_the_real_corpus_has_its_published_counts(ed_dir: Path, protocol: str, counts: tuple[int, ...]) -> None:
    found = tuple(sum(1 for _ in examples(read(ed_dir, split=split), protocol)) for split in ("train", "valid", "test"))
    assert found == counts


def test_an_example_has_all_earlier_turns_as_context_and_what_training_may_use(dialogues: list[Dialogue]) -> None:
    first, second = list(examples(dialogues))[:2]
    assert (first.id, second.id) == ("d1:2", "d1:4")
    assert second.context == dialogues[0].turns[:3]
    assert second.response == dialogues[0].turns[3]
    assert (second.emotion, second.situation, second.feedback) == ("proud", dialogues[0].situation, None)


def test_feedback_is_the_speaker_turn_between_two_listener_turns(dialogues: list[Dialogue]) -> None:
    found = list(examples(dialogues, "feedback"))
    assert [example.id for example in found] == ["d1:2", "d4:2", "d4:4"]
    assert [example.feedback.text for example in found if example.feedback] == ["I'll teach maths.", "It was.", "No."]


def test_a_listener_turn_that_the_speaker_answers_has_feedback_for_training(dialogues: list[Dialogue]) -> None:
    found = {example.id: example.feedback for example in examples(dialogues)}
    assert found["d1:2"] == dialogues[0].turns[2]
    assert found["d1:4"] is None
    (_, last) = examples([Dialogue("d", (S, L, L))])
    assert last.feedback is None


@pytest.mark.parametrize(
    ("turns", "responses"),
    [
        ((), {"listener-turns": [], "feedback": [], "all-turns": []}),
        ((L, S, L), {"listener-turns": [3], "feedback": [], "all-turns": [2, 3]}),  # the first turn answers nothing
        ((S, L, L), {"listener-turns": [2, 3], "feedback": [], "all-turns": [2, 3]}),
        ((S, L, S, S, L), {"listener-turns": [2, 5], "feedback": [], "all-turns": [2, 3, 4, 5]}),
        ((S, L, S, L), {"listener-turns": [2, 4], "feedback": [2], "all-turns": [2, 3, 4]}),
    ],
)
def test_which_turns_are_responses(turns: tuple[Turn, ...], responses: dict[str, list[int]]) -> None:
    for protocol, expected in responses.items():
        assert [example.id for example in examples([Dialogue("d", turns)], protocol)] == [f"d:{i}" for i in expected]


def test_situations_are_contexts_that_nobody_answered(dialogues: list[Dialogue]) -> None:
    first, second, *_ = examples(dialogues, "contexts-and-situations")
    assert (first.id, first.emotion, first.response.text) == ("d1:0", "proud", "")
    assert first.context == (Turn("speaker", str(dialogues[0].situation)),)
    assert second == next(examples(dialogues))


def test_protocols_have_a_name_and_a_version() -> None:
    assert {name: str(PROTOCOLS[name]) for name in PROTOCOLS} == {
        "all-turns": "all-turns-v1",
        "contexts-and-situations": "contexts-and-situations-v1",
        "labelled-turns": "labelled-turns-v1",
        "feedback": "feedback-v1",
        "listener-turns": "listener-turns-v1",
    }
    assert isinstance(PROTOCOLS["feedback"], Protocol)
    with pytest.raises(SettingsError, match="unknown protocol 'feedbak'; did you mean 'feedback'"):
        list(examples([], "feedbak"))
