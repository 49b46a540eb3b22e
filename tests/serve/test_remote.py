"""The server before an engine elsewhere that is away, busy, broken or choosy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import openai
import pytest

from attune.generate.engines.chat_client import Address
from attune.generate.engines.remote import RemoteSpeaker, RemoteSystem
from attune.respond.agent import Agent
from tests.generate.chat_server import Handle, Handler, Server, good, servers
from tests.respond.fakes import fake_agent
from tests.serve.conftest import Running, until

MESSAGES = [{"role": "user", "content": "My dog died."}]
TRIES = 2


@pytest.fixture
def engine() -> Iterator[Callable[[Handle], Server]]:
    with servers() as start:
        yield start


def agent_of(engine: Server) -> Agent:
    url = engine.address.replace("//", "//me:secret@")
    address = Address(url, tries=TRIES, pause=0.01, connecting=1.0, silence=5.0)
    return fake_agent(RemoteSystem(RemoteSpeaker(address)))  # type: ignore[arg-type]


def away(engine: Callable[[Handle], Server]) -> Server:
    """The address of an engine that was there."""
    server = engine(good)
    server.shutdown()
    server.server_close()
    return server


def tells_nothing(answer: httpx.Response, engine: Server) -> bool:
    return "secret" not in answer.text and str(engine.server_port) not in answer.text


def told(body: dict[str, Any]) -> str:
    return str(body["messages"][-1]["content"])


@pytest.mark.parametrize("stream", [False, True])
def test_an_engine_that_is_away_is_the_servers_trouble_and_may_be_asked_again(
    serve: Callable[..., Running],
    engine: Callable[[Handle], Server],
    caplog: pytest.LogCaptureFixture,
    stream: bool,
) -> None:
    gone = away(engine)
    server = serve(agent_of(gone))
    answer = server.chat(stream=stream)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["error"]["type"] == "server_error"
    assert answer.json()["error"]["code"] == "engine_away"
    assert tells_nothing(answer, gone)
    assert "the engine failed" in caplog.messages
    with pytest.raises(openai.InternalServerError):  # which the library asks again by itself
        server.client().chat.completions.create(model="default", messages=MESSAGES, stream=stream)


@pytest.mark.parametrize(
    ("status", "answered"), [(429, 503), (503, 503), (401, 503), (404, 503), (400, 502)], ids=lambda value: str(value)
)
@pytest.mark.parametrize("stream", [False, True])
def test_no_error_of_an_engine_is_the_callers(
    serve: Callable[..., Running], engine: Callable[[Handle], Server], status: int, answered: int, stream: bool
) -> None:
    speaking = engine(lambda handler, body: handler.answer({"error": {"message": handler.server.address}}, status))
    answer = serve(agent_of(speaking)).chat(stream=stream)
    assert (answer.status_code, "retry-after" in answer.headers) == (answered, answered == 503)
    assert tells_nothing(answer, speaking)


def test_an_engine_that_breaks_off_in_the_middle_ends_the_stream_with_an_error(
    serve: Callable[..., Running], engine: Callable[[Handle], Server]
) -> None:
    def cut(handler: Handler, body: dict[str, Any]) -> None:
        handler.start_stream()
        handler.piece("I am so sorry to hear that. Oh, how")
        handler.close_connection = True

    speaking = engine(cut)
    answer = serve(agent_of(speaking)).chat(stream=True)
    assert answer.status_code == 200
    assert '"code":"engine_away"' in answer.text
    assert not answer.text.endswith("data: [DONE]\n\n")
    assert tells_nothing(answer, speaking)


def test_nobody_is_told_where_the_engine_is(serve: Callable[..., Running], engine: Callable[[Handle], Server]) -> None:
    speaking = engine(good)
    server = serve(agent_of(speaking))
    assert server.chat().json()["attune"]["system"] == "remote"
    assert server.get("/health").json()["systems"] == ["remote"]
    assert [model["id"] for model in server.get("/v1/models").json()["data"]] == ["remote"]
    for path in ("/health", "/v1/models", "/metrics"):
        assert tells_nothing(server.get(path), speaking)


def together(server: Running, speaking: Server, go: threading.Event, texts: list[str]) -> list[httpx.Response]:
    """Ask one that the engine holds, and all the others while it does; so these are one batch."""
    with ThreadPoolExecutor(len(texts) + 1) as threads:
        held = threads.submit(server.chat, "held")
        until(lambda: len(speaking.asked) == 1)
        answers = [threads.submit(server.chat, text) for text in texts]
        until(lambda: server.app.state.serving.door.inside == len(texts) + 1)
        go.set()
        assert held.result().status_code == 200
        return [answer.result() for answer in answers]


def test_a_batch_before_an_engine_that_is_away_is_not_asked_again_one_by_one(
    serve: Callable[..., Running], engine: Callable[[Handle], Server]
) -> None:
    go = threading.Event()

    def failing(handler: Handler, body: dict[str, Any]) -> None:
        if told(body) == "held" and go.wait(10):
            good(handler, body)
        else:
            handler.answer({"error": {"message": "loading"}}, 503)

    speaking = engine(failing)
    server = serve(agent_of(speaking))
    answers = together(server, speaking, go, ["one", "two", "three", "four"])
    assert [answer.status_code for answer in answers] == [503] * 4
    assert len(speaking.asked) <= 1 + 4 * TRIES
    assert server.metric("attune_batch_size_sum") == 5


def test_one_that_the_engine_refuses_does_not_take_the_others_with_it(
    serve: Callable[..., Running], engine: Callable[[Handle], Server]
) -> None:
    go = threading.Event()

    def choosy(handler: Handler, body: dict[str, Any]) -> None:
        if told(body) == "held":
            go.wait(10)
        if told(body) == "refused":
            handler.answer({"error": {"message": "too long"}}, 400)
        elif told(body) == "unanswered":
            handler.answer({"choices": []})
        else:
            good(handler, body)

    speaking = engine(choosy)
    answers = together(serve(agent_of(speaking)), speaking, go, ["one", "refused", "unanswered", "four"])
    assert [answer.status_code for answer in answers] == [200, 502, 502, 200]
