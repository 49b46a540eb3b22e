"""Chat completions, as OpenAI's own client library asks for them."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from attune.dialogue.types import Turn
from attune.serve.settings import ServeSettings
from tests.serve.conftest import Running, until
from tests.serve.fake import FakeAgent

MESSAGES = [{"role": "user", "content": "My dog died."}]


def test_the_openai_client_gets_a_reply_with_what_attune_knows(server: Running) -> None:
    done = server.client().chat.completions.create(model="fake", messages=MESSAGES, seed=7)
    assert done.choices[0].message.content == "I heard: My dog died."
    assert (done.choices[0].finish_reason, done.choices[0].message.role) == ("stop", "assistant")
    assert done.usage.total_tokens == 3 + 5
    assert done.attune["emotion"] == "sad"
    assert done.attune["emotions"]["sad"] == pytest.approx(0.69)
    assert done.attune["guard"] == {"risk": None, "why": "", "action": "none"}
    assert done.attune["licence"] == "CC0-1.0"
    assert done.attune["reply_id"] == done.id
    assert set(done.attune["timings"]) == {"queue", "say", "total"}
    assert server.agent.seeds == [7]
    assert done._request_id


def test_the_openai_client_streams_and_the_last_chunk_has_what_attune_knows(server: Running) -> None:
    chunks = list(
        server.client().chat.completions.create(
            model="default", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
    )
    words = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices and chunk.choices[0].delta.content]
    assert words == ["I", " heard:", " My", " dog", " died."]
    assert chunks[0].choices[0].delta.role == "assistant"
    *_, last, usage = chunks
    assert (last.choices[0].finish_reason, last.attune["intent"]) == ("stop", "consoling")
    assert [chunk for chunk in chunks if getattr(chunk, "attune", None)] == [last]
    assert (usage.choices, usage.usage.completion_tokens) == ([], 5)
    assert server.agent.open_streams == 0


def test_the_async_client_works_too(server: Running) -> None:
    import asyncio

    async def ask() -> str:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
            done = await client.chat.completions.create(model="fake", messages=MESSAGES)
            return done.choices[0].message.content

    assert asyncio.run(ask()) == "I heard: My dog died."


def test_an_intent_can_be_asked_for_and_a_wrong_one_is_told_the_nearest(server: Running) -> None:
    client = server.client()
    asked = client.chat.completions.create(model="fake", messages=MESSAGES, extra_body={"intent": "questioning"})
    assert asked.attune["intent"] == "questioning"
    with pytest.raises(openai.UnprocessableEntityError, match="did you mean 'questioning'") as wrong:
        client.chat.completions.create(model="fake", messages=MESSAGES, extra_body={"intent": "questionning"})
    assert wrong.value.param == "intent"


def test_the_model_picks_the_system(serve) -> None:
    agents = {"warm": FakeAgent("warm"), "brief": FakeAgent("brief")}
    client = serve(agents).client()
    assert [model.id for model in client.models.list()] == ["warm", "brief"]
    assert client.models.retrieve("brief").attune == {"licence": "CC0-1.0", "default": False}
    assert client.chat.completions.create(model="brief", messages=MESSAGES).attune["system"] == "brief"
    assert client.chat.completions.create(model="default", messages=MESSAGES).attune["system"] == "warm"
    with pytest.raises(openai.NotFoundError, match="did you mean 'brief'") as wrong:
        client.chat.completions.create(model="breif", messages=MESSAGES)
    assert wrong.value.code == "model_not_found"


def test_system_messages_are_accepted_set_aside_and_named(server: Running) -> None:
    messages = [{"role": "system", "content": "You are a pirate."}, *MESSAGES, {"role": "user", "content": "I am sad."}]
    done = server.client().chat.completions.create(
        model="fake", messages=messages, temperature=0.2, extra_body={"colour": "blue"}
    )
    assert server.agent.heard == [[Turn("speaker", "My dog died.\nI am sad.")]]
    assert done.attune["ignored"] == ["messages.0 (system)", "temperature", "colour"]


@pytest.mark.parametrize("wish", [{"n": 2}, {"response_format": {"type": "json_object"}}])
def test_what_cannot_be_done_is_refused_rather_than_ignored(server: Running, wish: dict) -> None:
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        server.client().chat.completions.create(model="fake", messages=MESSAGES, **wish)
    assert refused.value.param.startswith(next(iter(wish)))
    assert refused.value.type == "invalid_request_error"


def test_seeds_of_any_sign_and_size_reach_the_agent_as_it_takes_them(server: Running) -> None:
    for seed in (-1, 2**63 - 1, 0):
        assert server.chat(seed=seed).status_code == 200
    assert server.agent.seeds == [2**32 - 1, 2**32 - 1, 0]
    assert server.chat(seed=2**63).status_code == 422


def together(server: Running, texts: list[str]) -> list[httpx.Response]:
    """Ask one that is held, and all the others while it is; so these are waiting together."""
    server.agent.going.clear()
    with ThreadPoolExecutor(len(texts) + 1) as threads:
        held = threads.submit(server.chat, "held")
        until(lambda: server.agent.batches != [])
        answers = [threads.submit(server.chat, text) for text in texts]
        until(lambda: server.app.state.serving.door.inside == len(texts) + 1)
        server.agent.going.set()
        assert held.result().status_code == 200
        return [answer.result() for answer in answers]


def test_requests_at_the_same_time_are_answered_in_one_pass(server: Running) -> None:
    answers = together(server, [f"I am {i}." for i in range(8)])
    texts = [answer.json()["choices"][0]["message"]["content"] for answer in answers]
    assert texts == [f"I heard: I am {i}." for i in range(8)]
    assert server.agent.batches == [1, 8]
    assert server.metric("attune_batch_size_sum") == 9


def test_one_that_cannot_be_answered_does_not_take_the_others_with_it(server: Running) -> None:
    answers = together(server, ["fine", "unanswerable", "broken", "well"])
    assert server.agent.batches[:2] == [1, 4]
    assert [answer.status_code for answer in answers] == [200, 422, 500, 200]
    assert answers[1].json()["error"]["message"] == "this cannot be answered"
    assert "secret" not in answers[2].text
    assert answers[2].headers["content-security-policy"]


def test_a_full_queue_answers_429_and_when_to_come_back(serve) -> None:
    agent = FakeAgent()
    server = serve(agent, ServeSettings(queue=2, max_wait=0))
    agent.going.clear()
    with ThreadPoolExecutor(2) as threads:
        waiting = [threads.submit(server.chat) for _ in range(2)]
        until(lambda: server.app.state.serving.door.inside == 2)
        for stream in (False, True):
            refused = server.chat(stream=stream)
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            assert refused.json()["error"]["type"] == "rate_limit_error"
        assert server.post("/v1/analyze", {"messages": MESSAGES}).status_code == 429
        agent.going.set()
        assert [one.result().status_code for one in waiting] == [200, 200]
    assert server.chat().status_code == 200
    assert server.metric("attune_dropped_total") == 3


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_past_its_deadline_is_dropped(serve, stream: bool) -> None:
    agent = FakeAgent()
    server = serve(agent, ServeSettings(deadline=0.2, max_wait=0))
    agent.going.clear()
    late = server.chat(stream=stream)
    assert (late.status_code, late.json()["error"]["code"]) == (503, "deadline_exceeded")
    assert late.headers["retry-after"]
    agent.going.set()
    until(lambda: agent.open_streams == 0)
    assert server.chat().status_code == 200
    assert server.app.state.serving.door.inside == 0


def test_a_reply_that_is_late_in_the_middle_ends_with_an_error_event(serve) -> None:
    agent = FakeAgent(latency=0.15)
    server = serve(agent, ServeSettings(deadline=0.4))
    with pytest.raises(openai.APIError, match="no reply within"):
        list(server.client().chat.completions.create(model="fake", messages=MESSAGES, stream=True))
    until(lambda: agent.open_streams == 0)


def test_whoever_leaves_while_waiting_is_not_worked_for(serve) -> None:
    agent = FakeAgent()
    server = serve(agent, ServeSettings(max_wait=0, max_batch=1))
    agent.going.clear()
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(server.chat, "first")
        until(lambda: agent.batches == [1])
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{server.url}/v1/chat/completions", json={"messages": MESSAGES}, timeout=0.2)
        until(lambda: server.app.state.serving.door.inside == 1)
        agent.going.set()
        assert first.result().status_code == 200
    assert server.chat("after").status_code == 200
    assert [turns[-1].text for turns in agent.heard] == ["first", "after"]


def test_whoever_leaves_in_the_middle_of_a_stream_frees_its_place(serve) -> None:
    agent = FakeAgent(latency=0.05)
    server = serve(agent, ServeSettings(streams=1, queue=1))
    body = {"messages": [{"role": "user", "content": "word " * 500}], "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=20) as response:
        assert response.status_code == 200
        lines = response.iter_lines()  # dropping it would close the connection
        assert next(lines)
        assert agent.open_streams == 1
        assert server.chat().status_code == 429
    until(lambda: agent.open_streams == 0 and server.app.state.serving.door.inside == 0)
    assert server.chat(stream=True).text.endswith("data: [DONE]\n\n")


def test_no_more_replies_are_streamed_at_once_than_set(serve) -> None:
    agent = FakeAgent(latency=0.02)
    server = serve(agent, ServeSettings(streams=2))
    with ThreadPoolExecutor(6) as threads:
        answers = list(threads.map(lambda _: server.chat(stream=True), range(6)))
    assert {answer.status_code for answer in answers} == {200}
    assert agent.most_streams == 2


def test_what_goes_wrong_before_the_first_piece_has_its_own_status(server: Running) -> None:
    assert server.chat("unanswerable", stream=True).status_code == 422
    assert server.chat("broken", stream=True).status_code == 500
    assert server.app.state.serving.door.inside == 0


def test_events_are_not_held_back_or_cached(server: Running) -> None:
    answer = server.chat(stream=True)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert (answer.headers["cache-control"], answer.headers["x-accel-buffering"]) == ("no-store", "no")
    lines = [line for line in answer.text.splitlines() if line]
    assert all(line.startswith("data: ") for line in lines)
    assert json.loads(lines[0].removeprefix("data: "))["object"] == "chat.completion.chunk"
