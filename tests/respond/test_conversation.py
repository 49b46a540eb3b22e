from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from attune.dialogue.readers import read
from attune.errors import AttuneError
from attune.respond.conversation import Conversation
from tests.respond.fakes import FakeSystem, fake_agent


def test_a_conversation_remembers_both_sides_and_asks_with_its_intent() -> None:
    system = FakeSystem()
    talk = Conversation(fake_agent(system), seed=0)
    first = talk.reply("I am sad.")
    talk.intent = "wishing"
    assert "".join(talk.stream("My dog died.")) == talk.exchanges[-1][1].text
    assert [turn.text for turn in system.asks[-1].context] == ["I am sad.", first.text, "My dog died."]
    assert system.asks[-1].control.label == "wishing"
    talk.restart()
    talk.reply("Hello.")
    assert len(system.asks[-1].context) == 1
    assert system.asks[-1].control.label == "wishing"


def test_what_is_not_answered_or_broken_off_is_no_part_of_it() -> None:
    talk = Conversation(fake_agent(FakeSystem(replies=["One, two, three."])))
    with pytest.raises(AttuneError):
        talk.reply("x" * 20_000)
    with closing(talk.stream("I am sad.")) as pieces:
        next(pieces)
    assert talk.turns == []


def test_a_saved_conversation_is_read_like_any_corpus(tmp_path: Path) -> None:
    talk = Conversation(fake_agent())
    with pytest.raises(AttuneError, match="nothing was said"):
        talk.save(tmp_path / "talk.json")
    talk.reply("I am sad.")
    talk.save(tmp_path / "talk.json")
    (dialogue,) = read(tmp_path / "talk.json")
    assert list(dialogue.turns) == talk.turns
    assert json.loads((tmp_path / "talk.json").read_text())["messages"][1]["attune"]["emotion"] == "sad"
    with pytest.raises(AttuneError, match="exists already"):
        talk.save(tmp_path / "talk.json")
