from __future__ import annotations

import pytest

from attune.dialogue.types import Dialogue, Turn
from attune.emotion.taxonomy import EMOTIONS
from attune.errors import DataError
from attune.respond.agent import Agent, as_context
from tests.systems import small_system


def test_an_agent_answers_and_says_what_it_perceives(dialogues: list[Dialogue]) -> None:
    agent = Agent(small_system("emoprepend", dialogues))
    reply = agent.reply(["My old dog died on Monday."])
    assert reply.text
    assert set(reply.emotions) == set(EMOTIONS)
    assert sum(reply.emotions.values()) == pytest.approx(1, abs=1e-4)
    assert reply.emotion == max(reply.emotions, key=lambda name: reply.emotions[name])
    blind = Agent(small_system("transformer", dialogues)).reply(["My old dog died on Monday."])
    assert (blind.emotion, blind.emotions) == (None, {})


def test_texts_alternate_backwards_from_the_persons_last_turn() -> None:
    assert [turn.role for turn in as_context(["a", "b"])] == ["listener", "speaker"]
    given = (Turn("speaker", "a"), Turn("speaker", "b"))
    assert as_context(given) == given


@pytest.mark.parametrize(("turns", "why"), [([], "nothing to answer"), ([" "], "empty"), (["x" * 10_001], "10,001")])
def test_what_cannot_be_answered_says_why(turns: list[str], why: str) -> None:
    with pytest.raises(DataError, match=why):
        as_context(turns)


@pytest.mark.parametrize("text", ["😀😀", "مرحبا كيف حالك", "\x00\x01", "[PAD] [EOS]", "a " * 4000])
def test_odd_texts_get_an_answer_all_the_same(text: str, dialogues: list[Dialogue]) -> None:
    assert Agent(small_system("emoprepend", dialogues)).reply([text]).text
