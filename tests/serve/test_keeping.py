"""Conversations and feedback over HTTP: kept only where there is a store, exported, erased."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from attune.serve.store import Store
from attune.web.keys import KeyFile
from tests.serve.conftest import Running

TALK = [{"role": "user", "content": "My dog died."}, {"role": "assistant", "content": "Oh no."}]


@pytest.fixture
def keeping(serve: Callable[..., Running], tmp_path: Path) -> Running:
    return serve(store=Store(f"sqlite:///{tmp_path}/store.db"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_conversation_is_kept_continued_exported_and_erased(keeping: Running, stream: bool) -> None:
    client = keeping.client()

    def say(messages: list[dict[str, str]], **more: object) -> dict:
        done = client.chat.completions.create(
            model="fake", messages=messages, stream=stream, user="ann", extra_body=more
        )
        return list(done)[-1].attune if stream else done.attune

    first = say(TALK[:1])
    heard = {"role": "assistant", "content": "I heard: My dog died."}
    second = say([*TALK[:1], heard, {"role": "user", "content": "Yes."}], conversation=first["conversation"])
    assert second["conversation"] == first["conversation"]
    kept = keeping.get(f"/v1/conversations/{first['conversation']}").json()
    assert [turn["text"] for turn in kept["turns"]] == ["My dog died.", heard["content"], "Yes.", "I heard: Yes."]
    assert (kept["user"], kept["turns"][-1]["reply_id"]) == ("ann", second["reply_id"])
    assert kept["turns"][-1]["attune"]["emotion"] == "sad"
    answer = _delete(keeping, f"/v1/conversations/{first['conversation']}")
    assert answer == (200, {"conversations": 1, "feedback": 0})
    assert list(keeping.app.state.serving.store.export()) == []
    assert keeping.get(f"/v1/conversations/{first['conversation']}").status_code == 404
    assert _delete(keeping, f"/v1/conversations/{first['conversation']}")[0] == 404


def _delete(server: Running, path: str, **more: object) -> tuple[int, dict]:
    answer = httpx.delete(server.url + path, timeout=20, **more)
    return answer.status_code, answer.json()


def test_a_request_may_ask_that_nothing_is_kept(keeping: Running) -> None:
    assert keeping.chat(store=False).json()["attune"]["conversation"] is None
    assert list(keeping.app.state.serving.store.export()) == []


def test_without_a_store_nothing_is_kept_and_that_is_said(server: Running) -> None:
    answer = server.chat(conversation="abcdefghijklmnop")
    assert answer.json()["attune"]["conversation"] is None
    assert answer.json()["attune"]["ignored"] == ["conversation"]
    refused = server.post("/v1/feedback", {"messages": TALK, "thumb": "up", "consent": True})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "no_store")
    assert server.get("/v1/conversations/abcdefghijklmnop").json()["error"]["code"] == "no_store"


def test_feedback_is_kept_with_consent_only(keeping: Running) -> None:
    opinion = {"messages": TALK, "thumb": "down", "better": "I am so sorry.\x00", "reply_id": "chatcmpl-1"}
    for consent in ({}, {"consent": False}, {"consent": None}):
        assert keeping.post("/v1/feedback", {**opinion, **consent}).status_code == 422
    store = keeping.app.state.serving.store
    assert list(store.export_feedback()) == []
    assert keeping.post("/v1/feedback", {**opinion, "consent": True}).json()["id"].startswith("feedback-")
    (kept,) = store.export_feedback()
    assert (kept["reply"], kept["thumb"], kept["better"]) == ("Oh no.", "down", "I am so sorry.")
    taken_back = keeping.post("/v1/feedback", {"messages": TALK, "reply_id": "chatcmpl-1", "consent": True})
    assert taken_back.json() == {"id": None}
    assert list(store.export_feedback()) == []


def test_feedback_is_erased_by_its_id(keeping: Running) -> None:
    given = {"messages": TALK, "thumb": "up", "model": "fake", "consent": True}  # of a reply without an id, too
    id = keeping.post("/v1/feedback", given).json()["id"]
    assert [row["system"] for row in keeping.app.state.serving.store.export_feedback()] == ["fake"]
    for count in (1, 0):
        assert _delete(keeping, f"/v1/feedback/{id}") == (200, {"conversations": 0, "feedback": count})
    assert list(keeping.app.state.serving.store.export_feedback()) == []
    assert _delete(keeping, "/v1/feedback/1")[0] == 422


@pytest.mark.parametrize("messages", [TALK[:1], TALK[1:], [], [{"role": "tool", "content": "x"}]])
def test_feedback_is_about_a_reply_to_somebody(keeping: Running, messages: list[dict[str, str]]) -> None:
    answer = keeping.post("/v1/feedback", {"messages": messages, "thumb": "up", "consent": True})
    assert answer.status_code == 422


def test_users_are_exported_and_erased_where_calls_have_keys(serve: Callable[..., Running], tmp_path: Path) -> None:
    keys, store = KeyFile(tmp_path / "keys.txt"), Store(f"sqlite:///{tmp_path}/store.db")
    phone, web = ({"Authorization": f"Bearer {keys.add(name)}"} for name in ("phone", "web"))
    server = serve(keys=keys, store=store)
    for headers in (phone, web):
        answer = server.post("/v1/chat/completions", {"messages": TALK[:1], "user": "ann"}, headers=headers)
        assert answer.status_code == 200
    lines = server.get("/v1/users/ann/conversations", headers=phone).text.splitlines()
    assert [json.loads(line)["user"] for line in lines] == ["ann"]
    assert _delete(server, "/v1/users/ann", headers=phone) == (200, {"conversations": 1, "feedback": 0})
    assert server.get("/v1/users/ann/conversations", headers=phone).text == ""
    assert len(list(store.export())) == 1


def test_a_users_name_alone_is_no_proof(keeping: Running) -> None:
    assert keeping.get("/v1/users/ann/conversations").status_code == 403
    assert _delete(keeping, "/v1/users/ann")[0] == 403
