"""The remote engine against real HTTP servers on this machine: good ones, slow ones, broken ones."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from attune.dialogue.text import normal_form
from attune.dialogue.types import Turn
from attune.errors import MissingError, SettingsError
from attune.generate.engines import ENGINES
from attune.generate.engines.chat_client import Address, ChatClient, RemoteError
from attune.generate.engines.remote import RemoteSpeaker, RemoteSystem, instructions, messages
from attune.generate.saying import Ask, Control, Tone
from attune.generate.settings import Decoding
from tests.generate.chat_server import Handle, Handler, Server, choice, good, servers

CONTEXT = (Turn("speaker", "My old dog died on Monday."),)


@pytest.fixture
def serve() -> Iterator[Callable[[Handle], Server]]:
    with servers() as start:
        yield start


def speaker(server: Server, **settings: Any) -> RemoteSpeaker:
    quick = {"model": "big-model", "tries": 3, "pause": 0.01, "connecting": 1.0, "silence": 2.0}
    return RemoteSpeaker(Address(server.address, **(quick | settings)))


def test_candidates_come_with_their_log_probabilities(serve: Callable[[Handle], Server]) -> None:
    server = serve(good)
    one, two = speaker(server).candidates([Ask(CONTEXT, count=3, seed=5), Ask(CONTEXT)])
    assert [said.text for said in one] == ["I'm so sorry. 0", "I'm so sorry. 1", "I'm so sorry. 2"]
    assert (one[0].logprob, one[0].tokens, len(two)) == (-1.5, 2, 1)
    path, headers, body = max(server.asked, key=lambda asked: asked[2].get("n", 1))
    assert path == "/v1/chat/completions"
    assert "Authorization" not in headers
    assert (body["model"], body["n"], body["seed"]) == ("big-model", 3, 5)
    assert (body["temperature"], body["top_p"], body["max_tokens"]) == (0.7, 0.9, 120)


def test_the_key_and_the_model_come_from_the_environment(
    serve: Callable[[Handle], Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ATTUNE_ENGINE_URL", raising=False)
    with pytest.raises(MissingError, match="set ATTUNE_ENGINE_URL"):
        RemoteSystem.from_environment()
    server = serve(good)
    monkeypatch.setenv("ATTUNE_ENGINE_URL", f"{server.address}/v1/chat/completions")
    monkeypatch.setenv("ATTUNE_ENGINE_KEY", "secret-key")
    system = ENGINES["remote"].from_environment()
    system.reply([CONTEXT])
    _, headers, body = server.asked[0]
    assert headers["Authorization"] == "Bearer secret-key"
    assert body["model"] == "big-model", "without ATTUNE_ENGINE_MODEL the server's first is taken"
    assert "secret-key" not in repr(system.speaker.client.address)
    monkeypatch.setenv("ATTUNE_ENGINE_URL", "localhost:8000")
    with pytest.raises(SettingsError, match="no address"):
        Address.from_environment()


def test_what_was_perceived_chosen_and_recalled_is_in_the_instructions() -> None:
    told = instructions(Control("sad", "questioning", concepts=("grief", "old age")), Tone("Ada", warmth=0.9))
    for part in ("Ada", "feel sad", "good reply here would ask one question", "grief, old age", "very warm"):
        assert part in told
    assert "you must console them" in instructions(Control(label="consoling", asked=True), Tone(brevity=0.9))
    assert "share the feeling: proud" in instructions(Control(label="proud"), Tone())
    turns = (*CONTEXT, Turn("speaker", "She was 14."), Turn("listener", "Oh no."), Turn("speaker", "Yes."))
    assert [(m["role"], m["content"]) for m in messages(Ask(turns))][1:] == [
        ("user", "My old dog died on Monday.\nShe was 14."),
        ("assistant", "Oh no."),
        ("user", "Yes."),
    ]


def test_a_stream_gives_its_pieces_as_they_come(serve: Callable[[Handle], Server]) -> None:
    release = threading.Event()

    def slow(handler: Handler, body: dict[str, Any]) -> None:
        handler.start_stream()
        handler.piece("Oh")
        release.wait(5)
        handler.piece(" no.")
        handler.event("[DONE]")

    stream = speaker(serve(slow)).stream(Ask(CONTEXT))
    assert next(stream) == "Oh"
    release.set()
    assert list(stream) == [" no."]
    assert "".join(speaker(serve(good)).stream(Ask(CONTEXT))) == "I'm so sorry."


def test_leaving_a_stream_closes_the_connection(serve: Callable[[Handle], Server]) -> None:
    gone = threading.Event()

    def endless(handler: Handler, body: dict[str, Any]) -> None:
        handler.start_stream()
        try:
            for _ in range(500):
                handler.piece("oh ")
                time.sleep(0.01)
        except OSError:
            gone.set()

    stream = speaker(serve(endless)).stream(Ask(CONTEXT))
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert gone.wait(5)


@pytest.mark.parametrize(("status", "headers"), [(429, {"Retry_After": "0.02"}), (503, {}), (500, {})])
def test_what_may_pass_is_tried_again(serve: Callable[[Handle], Server], status: int, headers: dict[str, str]) -> None:
    def busy_twice(handler: Handler, body: dict[str, Any]) -> None:
        if len(handler.server.asked) < 3:
            handler.answer({"error": {"message": "busy"}}, status, **headers)
        else:
            good(handler, body)

    server = serve(busy_twice)
    assert speaker(server).candidates([Ask(CONTEXT)])[0][0].text == "I'm so sorry. 0"
    assert len(server.asked) == 3


def test_tries_are_bounded_and_the_error_is_one_line(serve: Callable[[Handle], Server]) -> None:
    server = serve(lambda handler, body: handler.answer({"error": {"message": "over\nloaded"}}, 429))
    with pytest.raises(RemoteError, match=r"too much to do \(over loaded, 3 tries\)") as caught:
        speaker(server).candidates([Ask(CONTEXT)])
    assert "\n" not in str(caught.value)
    assert len(server.asked) == 3


def test_a_server_that_is_away_is_named(serve: Callable[[Handle], Server]) -> None:
    server = serve(good)
    address = server.address
    server.shutdown()
    server.server_close()
    with pytest.raises(RemoteError, match=rf"the engine at {address}/v1 is away \(no connection, 2 tries\)"):
        RemoteSpeaker(Address(address, model="m", tries=2, pause=0.01)).candidates([Ask(CONTEXT)])


def test_a_user_and_password_in_the_address_are_used_and_never_shown(serve: Callable[[Handle], Server]) -> None:
    server = serve(good)
    address = Address(server.address.replace("//", "//me:p%40ss@"), model="m", tries=1)
    assert RemoteSpeaker(address).candidates([Ask(CONTEXT)])[0][0].text == "I'm so sorry. 0"
    assert server.asked[0][1]["Authorization"] == f"Basic {b64encode(b'me:p@ss').decode()}"
    assert "p%40ss" not in repr(address)
    assert "p@ss" not in repr(address)
    server.shutdown()
    server.server_close()
    with pytest.raises(RemoteError) as away:
        RemoteSpeaker(address).candidates([Ask(CONTEXT)])
    with pytest.raises(SettingsError, match="'host' is no address") as wrong:
        Address("ftp://me:p@ss@host")
    assert "ss@" not in f"{away.value} {wrong.value}"


def test_its_name_tells_the_model_and_no_address() -> None:
    address = "http://me:secret@10.0.0.7:8000/v1"
    assert RemoteSystem(RemoteSpeaker(Address(address))).name == "remote"
    assert RemoteSystem(RemoteSpeaker(Address(address, model="big-model"))).name == "remote:big-model"


def test_a_server_that_says_nothing_is_not_waited_for_for_ever(serve: Callable[[Handle], Server]) -> None:
    release = threading.Event()
    server = serve(lambda handler, body: release.wait(10) and None)
    started = time.monotonic()
    with pytest.raises(RemoteError, match="did not answer in time"):
        speaker(server, silence=0.2, tries=2).candidates([Ask(CONTEXT)])
    assert time.monotonic() - started < 5
    release.set()


def test_an_answer_that_breaks_off_is_an_error_after_what_came(serve: Callable[[Handle], Server]) -> None:
    def cut(handler: Handler, body: dict[str, Any]) -> None:
        handler.start_stream()
        handler.piece("I am")
        handler.close_connection = True

    stream = speaker(serve(cut)).stream(Ask(CONTEXT))
    assert next(stream) == "I am"
    with pytest.raises(RemoteError, match="broke off"):
        next(stream)

    def short(handler: Handler, body: dict[str, Any]) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b'{"choices": [')
        handler.close_connection = True

    with pytest.raises(RemoteError, match="broke off"):
        speaker(serve(short)).candidates([Ask(CONTEXT)])


@pytest.mark.parametrize(
    ("found", "status", "words"),
    [
        (b"<html>hello</html>", 200, "no JSON"),
        ([1, 2], 200, "not of the form"),
        ({"object": "x"}, 200, "not of the form of a chat completion"),
        ({"choices": [choice("  ")]}, 200, "answered with nothing"),
        ({"error": {"message": "bad key"}}, 401, "set ATTUNE_ENGINE_KEY"),
        ({"error": "no such model"}, 404, "no such model.*ATTUNE_ENGINE_MODEL"),
        ({"detail": "messages are missing"}, 422, "refuses the request with 422: messages are missing"),
    ],
)
def test_a_bad_answer_is_an_error_that_says_what_to_do(
    serve: Callable[[Handle], Server], found: Any, status: int, words: str
) -> None:
    server = serve(lambda handler, body: handler.answer(found, status))
    with pytest.raises(RemoteError, match=words):
        speaker(server).candidates([Ask(CONTEXT)])
    assert len(server.asked) <= 2, "what will not pass is not tried again"


def test_a_server_without_extras_is_asked_plainly_from_then_on(serve: Callable[[Handle], Server]) -> None:
    def strict(handler: Handler, body: dict[str, Any]) -> None:
        if set(body) - {"model", "messages", "max_tokens", "temperature", "top_p", "stream"}:
            handler.answer({"error": {"message": "unknown field"}}, 400)
        elif body.get("stream"):
            good(handler, body)
        else:
            handler.answer({"choices": [choice("Oh no, I am sorry.")]})

    server = serve(strict)
    remote = speaker(server)
    (found,) = remote.candidates([Ask(CONTEXT, count=3)])
    assert [(said.logprob, said.tokens) for said in found] == [(0.0, 5)] * 3
    assert len(server.asked) == 4, "one refusal, then one request a candidate"
    assert "".join(remote.stream(Ask(CONTEXT))) == "I'm so sorry."
    assert len(server.asked) == 5
    assert "".join(speaker(serve(strict)).stream(Ask(CONTEXT))) == "I'm so sorry."


@pytest.mark.parametrize(
    "event", ["{broken", json.dumps({"error": {"message": "out of memory"}})], ids=["no JSON", "an error"]
)
def test_an_event_that_is_no_chunk_is_an_error(serve: Callable[[Handle], Server], event: str) -> None:
    def broken(handler: Handler, body: dict[str, Any]) -> None:
        handler.start_stream()
        handler.wfile.write(b": a comment\n\n")
        handler.event(event)

    with pytest.raises(RemoteError, match=r"no JSON|out of memory"):
        list(speaker(serve(broken)).stream(Ask(CONTEXT)))


def test_a_decoding_that_cannot_be_asked_for_is_refused(serve: Callable[[Handle], Server]) -> None:
    server = serve(good)
    with pytest.raises(SettingsError, match="greedy or nucleus"):
        speaker(server).candidates([Ask(CONTEXT, decoding=Decoding("top-k", top_k=5))])
    assert server.asked == []


class Local:
    """A local system of two heads."""

    capabilities = frozenset({"perceive", "decide", "reply"})
    closed = False

    def perceive(self, contexts: Any, *, progress: Any = None) -> np.ndarray:
        return np.eye(32)[[27] * len(contexts)]

    def decide(self, contexts: Any) -> np.ndarray:
        return np.eye(41)[[38] * len(contexts)]

    def close(self) -> None:
        self.closed = True


def test_a_local_system_perceives_and_decides_for_it(serve: Callable[[Handle], Server]) -> None:
    server = serve(good)
    system = RemoteSystem(speaker(server), Local())  # type: ignore[arg-type]
    assert system.capabilities == {"perceive", "decide", "reply", "say"}
    assert system.perceive([CONTEXT]).argmax() == 27
    seen: list[int] = []
    said = system.reply([CONTEXT, CONTEXT], decoding=Decoding("greedy", max_steps=9), progress=seen.append)
    text = "I'm so sorry. 0"
    assert [(one.prediction, one.text) for one in said] == [(normal_form(text), text)] * 2
    assert seen == [1, 1]
    told = server.bodies[0]
    assert (told["max_tokens"], told["temperature"]) == (9, 0.0)
    assert "They seem to feel sad." in told["messages"][0]["content"]
    assert "ask one question" in told["messages"][0]["content"]
    alone = RemoteSystem(speaker(server))
    assert alone.capabilities == {"reply", "say"}
    with pytest.raises(SettingsError, match="give it a local system"):
        alone.perceive([CONTEXT])
    system.close()
    assert system.local.closed  # type: ignore[union-attr]
    alone.close()


def test_the_model_is_asked_for_once(serve: Callable[[Handle], Server]) -> None:
    client = ChatClient(Address(serve(good).address))
    assert client.model == client.model == "big-model"
    client.close()
