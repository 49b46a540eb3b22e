"""The base app: errors in one shape, headers on every answer, limits, documentation, logs."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from pydantic import BaseModel

from attune.errors import AttuneError, DataError
from attune.web.app import base_app
from attune.web.errors import Problem
from attune.web.headers import HEADERS
from attune.web.logs import JsonFormatter


class Note(BaseModel):
    """A note."""

    text: str
    copies: int | str = 1


def notes(**settings: Any) -> FastAPI:
    app = base_app("Notes", "Notes over HTTP.", **settings)

    @app.post("/notes/{name}")
    async def write(name: str, note: Note) -> dict[str, int]:
        """Keep a note."""
        if name == "bad":
            raise DataError("line 3: no text")
        if name == "full":
            raise AttuneError("cannot write notes.txt: no space left")
        if name == "broken":
            raise RuntimeError(f"cannot keep {note.text}")
        if name == "taken":
            raise Problem(409, "it is there already", code="taken", headers={"Retry-After": "1"})
        return {"length": len(note.text)}

    return app


def ask(app: FastAPI, method: str, path: str, **more: Any) -> httpx.Response:
    async def go() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://notes") as client:
            return await client.request(method, path, **more)

    return asyncio.run(go())


def error(response: httpx.Response) -> dict[str, Any]:
    assert set(response.json()) == {"error"}
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}
    return response.json()["error"]


def test_every_mistake_is_answered_in_the_same_shape() -> None:
    app = notes()
    assert ask(app, "POST", "/notes/a", json={"text": "hello"}).json() == {"length": 5}
    missing = ask(app, "POST", "/notes/a", json={})
    assert (missing.status_code, error(missing)["param"]) == (422, "text")
    assert error(missing)["message"] == "text: Field required"
    union = error(ask(app, "POST", "/notes/a", json={"text": "x", "copies": []}))
    assert union["param"] == "copies"
    bad = ask(app, "POST", "/notes/bad", json={"text": "x"})
    assert (bad.status_code, error(bad)["message"]) == (422, "line 3: no text")
    ours = ask(app, "POST", "/notes/full", json={"text": "x"})
    assert (ours.status_code, error(ours)["code"]) == (500, "internal_error"), "not a mistake of whoever called"
    assert "notes.txt" not in ours.text
    taken = ask(app, "POST", "/notes/taken", json={"text": "x"})
    assert (taken.status_code, error(taken)["code"], taken.headers["retry-after"]) == (409, "taken", "1")
    for method, path, status in (("GET", "/nowhere", 404), ("GET", "/notes/a", 405)):
        assert error(ask(app, method, path))["type"] == "invalid_request_error"
        assert ask(app, method, path).status_code == status


@pytest.mark.parametrize("body", [b"", b"{", b"\xff\xfe\x00", b'"text"', b"[1,2]", b"nan"])
def test_what_is_not_the_expected_json_is_refused(body: bytes) -> None:
    answer = ask(notes(), "POST", "/notes/a", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert error(answer)["message"]


def test_an_answer_can_tell_of_what_cannot_be_written() -> None:
    app = notes()

    @app.get("/odd")
    async def odd() -> None:
        raise DataError("no note '\ud800'")

    assert error(ask(app, "GET", "/odd"))["message"] == "no note '\ud800'"


def test_a_page_elsewhere_cannot_send_json_as_plain_text() -> None:
    assert (
        ask(notes(), "POST", "/notes/a", content=b'{"text": "x"}', headers={"Content-Type": "text/plain"}).status_code
        == 422
    )
    assert ask(notes(), "POST", "/notes/a", content=b'{"text": "x"}').status_code == 422


def test_every_answer_has_the_security_headers_also_a_broken_one() -> None:
    app = notes()
    for path in ("/notes/a", "/notes/broken", "/notes/bad"):
        answer = ask(app, "POST", path, json={"text": "x"})
        assert {name: answer.headers[name] for name in HEADERS} == HEADERS
        assert answer.headers["cache-control"] == "no-store"
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
    assert answer.status_code == 422
    policy = dict(part.split(" ", 1) for part in HEADERS["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'"
    assert not any("unsafe" in part or "*" in part or "http" in part for part in policy.values())


def test_a_body_is_counted_while_it_is_read() -> None:
    app = notes(max_body=100)
    assert ask(app, "POST", "/notes/a", json={"text": "x" * 60}).status_code == 200
    refused = ask(app, "POST", "/notes/a", json={"text": "x" * 100})
    assert (refused.status_code, error(refused)["code"]) == (413, "body_too_large")

    async def chunks() -> Any:
        for _ in range(50):
            yield b" " * 10

    hidden = ask(app, "POST", "/notes/a", content=chunks(), headers={"Content-Type": "application/json"})
    assert hidden.status_code == 413


def test_other_origins_may_call_only_if_they_are_named() -> None:
    preflight = {"Origin": "https://friend.example", "Access-Control-Request-Method": "POST"}
    assert "access-control-allow-origin" not in ask(notes(), "OPTIONS", "/notes/a", headers=preflight).headers
    app = notes(cors=["https://friend.example"])
    allowed = ask(app, "OPTIONS", "/notes/a", headers=preflight)
    assert allowed.headers["access-control-allow-origin"] == "https://friend.example"
    stranger = ask(app, "OPTIONS", "/notes/a", headers={**preflight, "Origin": "https://stranger.example"})
    assert "access-control-allow-origin" not in stranger.headers


def test_the_documentation_shows_every_operation_and_loads_nothing_from_elsewhere() -> None:
    app = notes()
    page = ask(app, "GET", "/docs")
    assert page.headers["content-type"].startswith("text/html")
    for shown in ("POST /notes/{name}", "Keep a note.", "copies", "integer or string", "required"):
        assert shown in page.text, shown
    assert re.findall(r"(?:src|href)=\"(?!/|#)[^\"]*\"", page.text) == []
    assert "<script" not in page.text
    assert " style=" not in page.text
    assert ask(app, "GET", "/docs/style.css").headers["content-type"].startswith("text/css")


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What is logged, as it is written."""
    written, logger = io.StringIO(), logging.getLogger("attune")
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    before = (logger.level, logger.propagate)
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield written
    logger.removeHandler(handler)
    logger.level, logger.propagate = before


def test_a_request_is_a_line_of_json_without_what_was_written(log: io.StringIO) -> None:
    seen: list[tuple[str, str, int, float]] = []
    app = notes(observe=lambda *request: seen.append(request))
    answer = ask(app, "POST", "/notes/my-secret", json={"text": "my secret"})
    ask(app, "POST", "/notes/broken", json={"text": "my secret"})
    ask(app, "GET", "/my-secret")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert "secret" not in log.getvalue()
    first, failed, broken, lost = lines
    assert (first["event"], first["route"], first["status"]) == ("request", "/notes/{name}", 200)
    assert first["id"] == answer.headers["x-request-id"]
    assert first["ms"] >= 0
    assert (failed["event"], failed["error"], failed["level"]) == ("failed", "RuntimeError", "error")
    assert any("write" in place for place in failed["traceback"])
    assert (broken["status"], lost["status"], lost["route"]) == (500, 404, "unmatched")
    assert [(route, status) for route, _, status, _ in seen] == [
        ("/notes/{name}", 200),
        ("/notes/{name}", 500),
        ("unmatched", 404),
    ]


def test_the_message_of_an_exception_is_logged_only_if_text_may_be() -> None:
    try:
        raise RuntimeError("my secret")
    except RuntimeError as error:
        record = logging.LogRecord(
            "attune", logging.ERROR, "", 0, "failed", (), (type(error), error, error.__traceback__)
        )
    assert "secret" not in JsonFormatter().format(record)
    assert json.loads(JsonFormatter(text=True).format(record))["message"] == "my secret"
