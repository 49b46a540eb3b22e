from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.respond.guard.repeats import repeated

SAID = "I had a terrible day and my boss shouted at me in front of everybody."


@pytest.mark.parametrize(
    "reply",
    [
        SAID,
        SAID.upper(),
        "i had a terrible day and my boss shouted at me in front of everyone",
        f"Oh. {SAID}",
        "My boss shouted at me in front of everybody.",
        "So my boss shouted at me in front of everybody, did he?",
        "You had a terrible day and your boss shouted at you in front of everybody.",
    ],
)
def test_the_persons_words_are_not_said_back(reply: str) -> None:
    assert "what the person said" in str(repeated(reply, ["hello", SAID], []))


@pytest.mark.parametrize(
    "reply",
    [
        "That sounds like a terrible day.",
        "Your boss shouted at you? In front of everybody?",
        "I'm sorry you had such a day.",
        "A terrible day",
        "Oh no!",
    ],
)
def test_words_may_be_taken_up(reply: str) -> None:
    assert repeated(reply, [SAID], []) is None


def test_the_agent_does_not_repeat_itself() -> None:
    before = "That sounds hard, do you want to tell me more about it?"
    for reply in (before, "that sounds hard. Do you want to tell me more about it", f"Hm. {before}"):
        assert "said before" in str(repeated(reply, [], ["Hi!", before]))
    assert repeated("That sounds hard.", [], [before]) is None
    assert repeated("Oh no!", [], ["Oh no!"]) is None


@pytest.mark.parametrize(
    "reply",
    [
        "I am so sorry. I am so sorry.",
        "I am sad that you are sad that you are sad that you are sad",
        "Oh my god! oh my god",
    ],
)
def test_a_reply_does_not_go_round_in_circles(reply: str) -> None:
    assert repeated(reply, [], []) == "says the same thing more than once"


def test_a_greeting_may_be_returned() -> None:
    assert repeated("Good morning!", ["Good morning!"], []) is None


@given(st.text(), st.lists(st.text()), st.lists(st.text()))
def test_no_text_is_too_odd(reply: str, person: list[str], agent: list[str]) -> None:
    assert repeated(reply, person, agent) is None or isinstance(repeated(reply, person, agent), str)
