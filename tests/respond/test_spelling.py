from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.respond.spelling import spelled
from attune.respond.streaming import clauses
from tests.respond.fakes import FakeSystem, fake_agent

WORDS = [
    "thats",
    "Thats",
    "i",
    "im",
    "I",
    "dont",
    "its",
    "lets",
    "Lets",
    "dog",
    "Dr.",
    "iPhone",
    "well,",
    "no!",
    "so?",
    "...",
]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("Thats pretty awesome!", "That's pretty awesome!"),
        ("oh no, i'm sorry. you shouldnt worry", "Oh no, I'm sorry. You shouldn't worry"),
        ("Ive been there. Im sure youll be fine.", "I've been there. I'm sure you'll be fine."),
        ("lets hope she lets you in. Lets go!", "Let's hope she lets you in. Let's go!"),
        ("He said “dont”. (i did too.)", "He said “don't”. (I did too.)"),
        ("well... i guess so", "Well... I guess so"),
        ("Did Dr. lee call at 5 p.m. or later? no?", "Did Dr. lee call at 5 p.m. or later? No?"),
    ],
)
def test_what_was_left_out_is_put_in(typed: str, meant: str) -> None:
    assert spelled(typed) == meant
    assert spelled(meant) == meant


@pytest.mark.parametrize(
    "text",
    [
        "Its tail was ill, and we were wed.",
        "An iPhone from eBay, i.e. a cheap one.",
        "See dont.example/im or write to im@thats.example, #ive.",
        "THATS what they call it. IM me.",
        "It's rock 'n' roll, isn't it? I'd say so; i-95 is long.",
        "That's awesome... and then?",
    ],
)
def test_what_is_right_or_unsure_stays(text: str) -> None:
    assert spelled(text) == text


@given(st.lists(st.sampled_from(WORDS)))
def test_said_in_clauses_or_at_once_it_is_the_same_and_needs_no_second_time(words: list[str]) -> None:
    text, said = " ".join(words), ""
    for clause in clauses([text]):
        said += spelled(clause, said)
    assert said == spelled(text)
    assert spelled(said) == said
    assert [word.replace("'", "").lower() for word in said.split()] == [word.lower() for word in words]


@given(st.text())
def test_no_text_is_too_strange(text: str) -> None:
    assert spelled(text).replace("'", "").lower() == text.replace("'", "").lower()


@pytest.mark.parametrize(("typed", "heard"), [(True, "That's sad, I'm sorry."), (False, "thats sad, im sorry.")])
def test_an_agent_mends_what_a_system_types_that_says_so(typed: bool, heard: str) -> None:
    system = FakeSystem(replies=["thats sad, im sorry."])
    system.typed = typed
    agent = fake_agent(system)
    assert agent.reply(["My dog died."], seed=1).text == heard
    assert "".join(agent.reply(["My dog died."], seed=1, stream=True)) == heard
