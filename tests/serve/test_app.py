"""Everything of the server but chat: models, analysis, health, metrics, the page, keys, logs."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

import attune
from attune.errors import SettingsError
from attune.serve.app import PAGE, create_app
from attune.serve.settings import ServeSettings
from attune.serve.store import Store
from attune.web.headers import HEADERS
from attune.web.keys import KeyFile
from attune.web.logs import JsonFormatter
from tests.serve.conftest import Running, until

MESSAGES = [{"role": "user", "content": "My dog died."}]


def test_an_analysis_tells_what_is_felt_and_known_and_the_graph(server: Running) -> None:
    found = server.post("/v1/analyze", {"messages": MESSAGES}).json()
    assert (found["model"], found["emotion"], found["intent"]) == ("fake", "sad", "consoling")
    assert len(found["emotions"]) == 32
    assert found["concepts"][0]["concept"] == "pet"
    assert found["graph"]["vertices"]
    assert server.post("/v1/analyze", {"messages": []}).status_code == 422


def test_health_says_what_is_there_and_when_something_has_stopped(
    serve: Callable[..., Running], tmp_path: Path
) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db")
    server = serve(store=store)
    expected = {"status": "ok", "version": attune.__version__, "systems": ["fake"], "store": "ok", "keys": False}
    assert server.get("/health").json() == expected
    server.app.state.serving.desks["fake"].close()
    assert server.get("/health").status_code == 503
    assert serve().get("/health").json()["store"] == "none"


def test_a_store_that_is_away_costs_nobody_their_reply(serve: Callable[..., Running], tmp_path: Path) -> None:
    store = Store(f"sqlite:///{tmp_path}/store.db")
    server = serve(store=store)
    assert server.chat().json()["attune"]["conversation"]
    store.engine.dispose()
    (tmp_path / "store.db").write_bytes(b"not a database any more " * 100)
    answer = server.chat()
    assert answer.status_code == 200
    assert answer.json()["attune"]["conversation"] is None
    assert server.metric("attune_unkept_total") == 1
    assert server.get("/health").json()["store"] == "away"


def test_metrics_count_without_naming_anybody(server: Running) -> None:
    server.chat("My secret name is Ann.", user="ann-17")
    server.chat("nobody")
    server.get("/v1/conversations/abcdefghijklmnop")
    shown = server.get("/metrics").text
    assert 'attune_requests_total{method="POST",route="/v1/chat/completions",status="200"} 2.0' in shown
    assert 'attune_guard_total{action="none"} 2.0' in shown
    assert "attune_requests_open 0.0" in shown
    assert 'attune_stage_seconds_count{stage="queue"} 2.0' in shown
    assert "process_resident_memory_bytes" in shown
    assert not any(word in shown for word in ("secret", "ann-17", "abcdefghijklmnop"))


def test_the_page_and_its_files_come_with_a_strict_policy(server: Running) -> None:
    page = server.get("/")
    assert page.text == (PAGE / "index.html").read_text(encoding="utf-8")
    script = server.get("/static/chat.js")
    assert script.headers["content-type"].startswith("text/javascript")
    for answer in (page, script):
        assert answer.headers["content-security-policy"] == HEADERS["Content-Security-Policy"]
        assert answer.headers["cache-control"] == "no-cache"
    again = server.get("/static/chat.js", headers={"If-None-Match": script.headers["etag"]})
    assert again.status_code == 304
    for outside in ("/static/../app.py", "/static/%2e%2e/app.py", "/static/nothing.js"):
        assert server.get(outside).status_code == 404


def test_the_documentation_names_every_route(server: Running) -> None:
    page, document = server.get("/docs").text, server.get("/openapi.json").json()
    assert {"/v1/chat/completions", "/v1/models", "/v1/analyze", "/v1/feedback", "/health", "/metrics"} <= set(
        document["paths"]
    )
    assert all(path in page for path in document["paths"])
    assert "questioning" in page


def test_with_keys_only_those_who_have_one_are_answered(serve: Callable[..., Running], tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.txt")
    secret = keys.add("phone")
    server = serve(keys=keys)
    assert server.client(secret).chat.completions.create(model="fake", messages=MESSAGES).id
    with pytest.raises(openai.AuthenticationError, match="not known"):
        server.client("attune-guess").chat.completions.create(model="fake", messages=MESSAGES)
    refused = server.chat()
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
    assert refused.json()["error"]["code"] == "invalid_api_key"
    for path in ("/v1/models", "/metrics", "/v1/conversations/abcdefghijklmnop"):
        assert server.get(path).status_code == 401
    for path in ("/", "/health", "/docs"):
        assert server.get(path).status_code == 200
    keys.remove("phone")
    with pytest.raises(openai.AuthenticationError):
        server.client(secret).models.list()
    keys.path.write_text("damaged")
    with pytest.raises(openai.InternalServerError, match="cannot read its keys"):
        server.client(secret).models.list()


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    written, logger = io.StringIO(), logging.getLogger("attune")
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    logger.addHandler(handler)
    level = logger.level
    logger.setLevel(logging.INFO)
    yield written
    logger.removeHandler(handler)
    logger.setLevel(level)


@pytest.mark.parametrize("stream", [False, True])
def test_logs_hold_no_text_unless_asked_for(serve: Callable[..., Running], log: io.StringIO, stream: bool) -> None:
    server = serve()
    server.chat("my secret", stream=stream, user="ann")
    until(lambda: log.getvalue().count('"request"') == 1)  # a request is logged when it has ended
    server.chat("broken secret", stream=stream)
    until(lambda: log.getvalue().count('"request"') == 2)
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert "secret" not in log.getvalue()
    assert "ann" not in json.dumps(lines[0])
    assert lines[0]["system"] == "fake"
    assert lines[0]["queue_ms"] >= 0
    server = serve(None, ServeSettings(log_text=True))
    server.chat("my secret", stream=stream)
    until(lambda: log.getvalue().count('"request"') == 3)
    last = json.loads(log.getvalue().splitlines()[-1])
    assert (last["text"], last["reply"]) == (["my secret"], "I heard: my secret")


def test_an_app_needs_an_agent_and_settings_that_make_sense() -> None:
    with pytest.raises(SettingsError, match="no agent"):
        create_app({})
    for wrong in ({"queue": 0}, {"deadline": 0}, {"max_wait": -1}):
        with pytest.raises(SettingsError):
            ServeSettings(**wrong)
