from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attune.errors import AttuneError, DataError
from attune.generate.saying import Ask
from attune.respond.streaming import clauses
from tests.respond.fakes import FakeSystem, fake_agent

SAD = ["I am sad about my dog."]
LONG = "Oh no, I am so sorry. You are stupid, and I mean it. Goodbye."


@given(st.lists(st.text(alphabet="ab ,.!?\n…", max_size=6)))
def test_clauses_are_the_same_text_however_it_is_cut(pieces: list[str]) -> None:
    whole = "".join(pieces)
    assert "".join(clauses(pieces)) == "".join(clauses([whole]))
    assert "".join(clauses(pieces)).split() == whole.split()


def test_a_stream_comes_clause_by_clause_and_ends_with_the_reply() -> None:
    system = FakeSystem()
    stream = fake_agent(system).reply(SAD, seed=1, stream=True)
    with pytest.raises(AttuneError, match="not finished"):
        _ = stream.reply
    assert list(stream) == ["Oh no,", " poor dog!", " How do you feel now?"]
    assert stream.reply.text == "Oh no, poor dog! How do you feel now?"
    assert (stream.reply.emotion, stream.reply.intent, system.asks[0].count) == ("sad", "questioning", 1)
    assert 0 < stream.reply.timings["first"] <= stream.reply.timings["total"]
    assert [candidate["text"] for candidate in stream.reply.candidates] == [stream.reply.text]


def test_a_system_that_does_not_stream_gives_its_reply_in_clauses() -> None:
    stream = fake_agent(FakeSystem("reply")).reply(SAD, seed=1, stream=True)
    assert list(stream) == ["Oh no,", " poor dog!", " How do you feel now?"]
    assert stream.reply.text == "Oh no, poor dog! How do you feel now?"


def test_a_refused_clause_is_never_shown_and_the_stream_ends_safely() -> None:
    system = FakeSystem(replies=[LONG])
    stream = fake_agent(system).reply(SAD, stream=True)
    assert list(stream) == ["Oh no,", " I am so sorry.", " I am here and I am listening."]
    assert stream.reply.guard == {"risk": None, "why": "it insults", "action": "removed"}
    assert system.stopped == 1
    inside = fake_agent(FakeSystem(replies=["Well, you stupid person."])).reply(SAD, stream=True)
    assert "".join(inside) == "Well, … I am here and I am listening."


def test_a_stream_whose_first_clause_is_refused_begins_again() -> None:
    system = FakeSystem(replies=["You stupid person, go.", "So stupid.", "Oh no, poor dog!"])
    stream = fake_agent(system).reply(SAD, seed=0, stream=True)
    assert list(stream) == ["Oh no,", " poor dog!"]
    assert stream.reply.guard == {"risk": None, "why": "it insults", "action": "replaced"}
    assert [ask.seed for ask in system.asks] == [0, 1, 2]
    tried = [(candidate["text"], candidate.get("refused")) for candidate in stream.reply.candidates]
    assert tried == [("You stupid person,", "it insults"), ("So stupid.", "it insults"), ("Oh no, poor dog!", None)]
    never = FakeSystem(replies=["So stupid, really.", "You stupid person, go."])
    assert list(fake_agent(never).reply(["I am sad."], seed=1, stream=True)) == ["I am here and I am listening."]
    assert len(never.asks) == 3


def test_closing_stops_the_decoding_and_keeps_what_was_said() -> None:
    system = FakeSystem(replies=["One, two, three, four, five, six."])
    stream = fake_agent(system).reply(SAD, stream=True)
    assert [next(stream), next(stream)] == ["One,", " two,"]
    stream.close()
    assert (system.stopped, system.ended) == (1, 0)
    assert stream.reply.text == "One, two,"
    assert list(stream) == []
    stream.close()


def test_a_stream_that_nobody_reads_costs_nothing() -> None:
    system = FakeSystem()
    with fake_agent(system).reply(SAD, stream=True):
        pass
    assert system.asks == []


def test_another_thread_can_close_a_stream_that_is_waiting() -> None:
    waiting, go_on = threading.Event(), threading.Event()

    class Slow(FakeSystem):
        def stream(self, ask: Ask) -> Iterator[str]:
            yield "One, "
            waiting.set()
            go_on.wait(10)
            yield "two, "
            raise AssertionError("nobody listens any more")

    stream = fake_agent(Slow("say")).reply(SAD, stream=True)
    said: list[str] = []
    reader = threading.Thread(target=lambda: said.extend(stream))
    reader.start()
    assert waiting.wait(10)
    stream.close()
    go_on.set()
    reader.join(10)
    assert said == ["One,"]
    assert stream.reply.text == "One,"


def test_bad_input_is_refused_before_the_first_piece() -> None:
    with pytest.raises(DataError, match="empty"):
        fake_agent().reply([""], stream=True)
