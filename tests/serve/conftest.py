"""Real servers on free ports, with an agent that needs no model."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
import uvicorn
from fastapi import FastAPI

from attune.serve.app import create_app
from attune.serve.run import address_of, bound
from attune.serve.store import Store
from tests.serve.fake import FakeAgent
from tests.serve.page_server import ChatServer


@dataclass
class Running:
    """A server on a port of this machine."""

    url: str
    app: FastAPI
    agent: FakeAgent
    server: uvicorn.Server

    def client(self, key: str = "none") -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, timeout=60)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=body, timeout=60, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=60, **more)

    def chat(self, text: str = "My dog died.", **more: Any) -> httpx.Response:
        return self.post("/v1/chat/completions", {"messages": [{"role": "user", "content": text}], **more})

    def metric(self, name: str) -> float:
        lines = self.get("/metrics").text.splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))


def until(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for a condition; fail if it does not come."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.01)


@pytest.fixture
def serve() -> Iterator[Callable[..., Running]]:
    """Starts servers, and stops them when the test ends."""
    running: list[tuple[Running, threading.Thread]] = []

    def start(agents: FakeAgent | Mapping[str, FakeAgent] | None = None, *arguments: Any, **more: Any) -> Running:
        agents = agents or FakeAgent()
        first = next(iter(agents.values())) if isinstance(agents, Mapping) else agents
        app, listening = create_app(agents, *arguments, **more), bound("127.0.0.1", 0)
        server = uvicorn.Server(uvicorn.Config(app, log_config=None, access_log=False, timeout_graceful_shutdown=5))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
        thread.start()
        until(lambda: server.started)
        started = Running(address_of(listening), app, first, server)
        running.append((started, thread))
        return started

    yield start
    for one, thread in running:
        if isinstance(one.agent, FakeAgent):
            one.agent.going.set()
        one.server.should_exit = True
        thread.join(10)
        assert not thread.is_alive()


@pytest.fixture
def server(serve: Callable[..., Running]) -> Running:
    """A server with the usual settings."""
    return serve()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A real PostgreSQL of its own, stopped and forgotten at the end."""
    import pgserver

    started = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield started
    started.cleanup()


@pytest.fixture
def postgres(postgres_server: Any) -> str:
    """The URL of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    postgres_server.psql(f"CREATE DATABASE {name};")
    url: str = postgres_server.get_uri(name)
    return url


@pytest.fixture(scope="module")
def chat_server() -> Iterator[ChatServer]:
    server = ChatServer()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def open_page(chromium: Any, chat_server: ChatServer) -> Iterator[Callable[..., Any]]:
    """Opens pages of their own; at the end none may have broken, asked elsewhere, or been stopped by the policy."""
    chat_server.reset()
    contexts, wrong, origins = [], [], set()

    def start(url: str = chat_server.url, width: int = 1280, height: int = 800, **more: Any) -> Any:
        context = chromium.new_context(viewport={"width": width, "height": height}, **more)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(15_000)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
        page.on("request", lambda asked: origins.add(asked.url) if not asked.url.startswith((url, "blob:")) else None)
        page.goto(url)
        page.wait_for_selector("#system option", state="attached")
        return page

    yield start
    for context in contexts:
        context.close()
    assert wrong == []
    assert origins == set()


@pytest.fixture
def keeping(serve: Callable[..., Running], tmp_path: Path) -> Running:
    """The real server with two systems and a store."""
    agents = {name: FakeAgent(name) for name in ("fake", "kemp")}
    return serve(agents, store=Store(f"sqlite:///{tmp_path}/store.db"))
