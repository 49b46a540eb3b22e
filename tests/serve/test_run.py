"""The server as a process: its socket, its signals, its end."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import attune
from attune.errors import AttuneError, SettingsError
from attune.serve.run import address_of, bound, load_agents
from tests.serve.conftest import until
from tests.serve.fake import FakeAgent

TREE = Path(attune.__file__).parents[1]


def test_a_port_that_is_taken_is_one_line() -> None:
    with bound("127.0.0.1", 0) as taken:
        taken.listen()
        with pytest.raises(AttuneError, match="address already in use; choose another with --host and --port"):
            bound("127.0.0.1", taken.getsockname()[1])
    with pytest.raises(AttuneError, match="cannot listen on nowhere"):
        bound("nowhere.invalid", 80)


def test_the_address_is_one_that_a_browser_can_open() -> None:
    with bound("0.0.0.0", 0) as everywhere:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+", address_of(everywhere))


def test_systems_are_named_by_their_folders_and_warm() -> None:
    agents = load_agents(["default", "runs/kemp", "runs/moel/"], lambda system: FakeAgent("attune"))
    assert list(agents) == ["attune", "kemp", "moel"]
    assert all(agent.warm for agent in agents.values())  # type: ignore[attr-defined]
    with pytest.raises(SettingsError, match="two systems are named 'kemp'"):
        load_agents(["runs/kemp", "old/kemp"], lambda system: FakeAgent("x"))


def test_what_is_under_way_is_finished_before_the_server_ends() -> None:
    command = [sys.executable, "-m", "tests.serve.fake", "--latency", "2"]
    process = subprocess.Popen(command, cwd=TREE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        until(lambda: _answers(url), 60)
        body = {"messages": [{"role": "user", "content": "Hi"}]}
        with ThreadPoolExecutor(2) as threads, httpx.Client(base_url=url) as watching:
            asked = [
                threads.submit(httpx.post, f"{url}/v1/chat/completions", json={**body, "stream": stream}, timeout=30)
                for stream in (False, True)
            ]
            until(lambda: "attune_requests_open 2.0" in watching.get("/metrics").text)
            process.send_signal(signal.SIGTERM)
            whole, streamed = (one.result() for one in asked)
        assert whole.json()["choices"][0]["message"]["content"] == "I heard: Hi"
        assert streamed.text.endswith("data: [DONE]\n\n")
        _, log = process.communicate(timeout=30)
        assert process.returncode == 0, log
        assert not _answers(url)
        assert "heard" not in log
    finally:
        process.kill()


def _answers(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5).status_code == 200
    except httpx.HTTPError:
        return False


def test_a_socket_is_free_again_at_once() -> None:
    first = bound("127.0.0.1", 0)
    port = first.getsockname()[1]
    first.listen()
    socket.create_connection(("127.0.0.1", port)).close()
    first.close()
    bound("127.0.0.1", port).close()
