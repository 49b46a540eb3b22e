from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import pytest

from attune.dialogue.types import Turn
from attune.errors import DataError
from attune.serve.batcher import Asked, Batcher, Given
from tests.serve.conftest import until
from tests.serve.fake import FakeAgent, FakeReply


@pytest.fixture
def agent() -> FakeAgent:
    return FakeAgent()


@pytest.fixture
def batcher(agent: FakeAgent) -> Iterator[Batcher]:
    made = Batcher(agent, max_batch=4, max_wait=0.2, observe=lambda size: None)
    yield made
    agent.going.set()
    made.close()
    assert not made.alive()


def asked(text: str) -> Asked:
    return Asked([Turn("speaker", text)])


def test_batches_are_no_larger_than_set(agent: FakeAgent, batcher: Batcher) -> None:
    agent.going.clear()
    futures = [batcher.submit(asked(str(number))) for number in range(10)]
    agent.going.set()
    assert [future.result(10).reply.text for future in futures] == [f"I heard: {number}" for number in range(10)]
    assert max(agent.batches) == 4


def test_whoever_talks_alone_is_not_made_to_wait(agent: FakeAgent) -> None:
    batcher = Batcher(agent, max_batch=4, max_wait=60, observe=lambda size: None)
    started = time.monotonic()
    for _ in range(3):
        batcher.submit(asked("Hi")).result(10)
    assert time.monotonic() - started < 10
    batcher.close()


def test_after_company_a_batch_waits_for_more(agent: FakeAgent) -> None:
    batcher = Batcher(agent, max_batch=2, max_wait=60, observe=lambda size: None)
    agent.going.clear()
    first = batcher.submit(asked("first"))
    until(lambda: agent.batches == [1])
    pair = [batcher.submit(asked(text)) for text in ("second", "third")]
    agent.going.set()
    for future in (first, *pair):
        future.result(10)
    early = batcher.submit(asked("early"))
    threading.Timer(0.2, lambda: batcher.submit(asked("late"))).start()
    early.result(10)
    assert agent.batches == [1, 2, 2]
    batcher.close()


def test_what_is_not_wanted_any_more_is_passed_over(agent: FakeAgent, batcher: Batcher) -> None:
    agent.going.clear()
    first = batcher.submit(asked("first"))
    until(lambda: agent.batches == [1])
    unwanted, wanted = batcher.submit(asked("unwanted")), batcher.submit(asked("wanted"))
    assert unwanted.cancel()
    agent.going.set()
    first.result(10)
    wanted.result(10)
    assert [turns[-1].text for turns in agent.heard] == ["first", "wanted"]


def test_what_is_not_wanted_any_more_is_passed_over_when_a_failed_batch_is_taken_one_by_one() -> None:
    waiting: list[Future[Given]] = []

    class Left(FakeAgent):
        """The second of a batch goes away while it is worked out."""

        def reply_many(self, conversations: Sequence[Sequence[Turn]], **more: Any) -> list[FakeReply]:
            if len(conversations) > 1:
                assert waiting[1].cancel()
            return super().reply_many(conversations, **more)

    agent = Left()
    agent.going.clear()
    batcher = Batcher(agent, max_batch=4, max_wait=0.2, observe=lambda size: None)
    batcher.submit(asked("first"))
    until(lambda: agent.batches == [1])
    waiting += [batcher.submit(asked(text)) for text in ("unanswerable", "unwanted", "wanted")]
    agent.going.set()
    assert waiting[2].result(10).reply.text == "I heard: wanted"
    assert isinstance(waiting[0].exception(), DataError)
    assert "unwanted" not in [turns[-1].text for turns in agent.heard]
    batcher.close()


def test_closing_finishes_what_was_asked(agent: FakeAgent) -> None:
    batcher = Batcher(agent, max_batch=2, max_wait=0.2, observe=lambda size: None)
    futures = [batcher.submit(asked(str(number))) for number in range(5)]
    batcher.close()
    assert all(future.done() for future in futures)


def test_waiting_is_told_in_milliseconds(agent: FakeAgent, batcher: Batcher) -> None:
    agent.going.clear()
    first = batcher.submit(asked("first"))
    until(lambda: agent.batches == [1])
    second = batcher.submit(asked("second"))
    time.sleep(0.1)
    agent.going.set()
    first.result(10)
    assert second.result(10).waited >= 100
