from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.dialogue.types import Turn
from attune.serve.messages import as_turns
from attune.serve.schemas import Message
from attune.serve.settings import ServeSettings
from attune.web.errors import Problem

SETTINGS = ServeSettings(max_chars=100, max_messages=50)


def said(*messages: tuple[str, object]) -> list[Message]:
    return [Message(role=role, content=content) for role, content in messages]  # type: ignore[arg-type]


def test_users_are_speakers_assistants_listeners_and_messages_in_a_row_one_turn() -> None:
    turns, ignored = as_turns(
        said(("assistant", "Hello!"), ("user", "My dog"), ("user", "died."), ("assistant", "Oh no."), ("user", "Yes.")),
        SETTINGS,
    )
    assert turns == [
        Turn("listener", "Hello!"),
        Turn("speaker", "My dog\ndied."),
        Turn("listener", "Oh no."),
        Turn("speaker", "Yes."),
    ]
    assert ignored == []


def test_parts_of_a_message_are_joined() -> None:
    parts = [{"type": "text", "text": "I am"}, {"type": "text", "text": "sad."}]
    assert as_turns(said(("user", parts)), SETTINGS)[0] == [Turn("speaker", "I am\nsad.")]


def test_instructions_and_broken_off_replies_are_set_aside_and_named() -> None:
    messages = said(("developer", "Be brief."), ("user", "Hi"), ("assistant", None), ("system", "x"), ("user", "there"))
    turns, ignored = as_turns(messages, SETTINGS)
    assert turns == [Turn("speaker", "Hi\nthere")]
    assert ignored == ["messages.0 (developer)", "messages.2 (empty)", "messages.3 (system)"]


@pytest.mark.parametrize(
    ("messages", "why", "param"),
    [
        ([("user", "Hi"), ("assistant", "Hello")], "the last message must be the user's", "messages.1.role"),
        ([("system", "Hi")], "the last message must be the user's", "messages.0.role"),
        ([("user", "")], r"messages\.0 is empty", "messages.0.content"),
        ([("user", None)], r"messages\.0 is empty", "messages.0.content"),
        ([("user", " \x00\n")], r"messages\.0 is empty", "messages.0.content"),
        ([("user", "x" * 101)], "101 characters; at most 100", "messages.0.content"),
        ([("user", "x" * 60), ("user", "x" * 60)], "a turn of 121 characters", "messages.1.content"),
        ([("user", "x")] * 51, "51 messages; at most 50", "messages"),
    ],
)
def test_what_cannot_be_answered_says_why(messages: list[tuple[str, str]], why: str, param: str) -> None:
    with pytest.raises(Problem, match=why) as wrong:
        as_turns(said(*messages), SETTINGS)
    assert (wrong.value.status_code, wrong.value.param) == (422, param)


ROLES = st.sampled_from(["user", "assistant", "system", "developer"])


@given(st.lists(st.tuples(ROLES, st.text(max_size=30)), min_size=1, max_size=10))
def test_any_conversation_becomes_turns_that_alternate_or_is_refused(messages: list[tuple[str, str]]) -> None:
    try:
        turns, _ = as_turns(said(*messages), SETTINGS)
    except Problem:
        turns = []
    assert all(one.role != other.role for one, other in pairwise(turns))
    assert all(turn.text == turn.text.strip() != "" for turn in turns)
    assert not turns or turns[-1].role == "speaker"
