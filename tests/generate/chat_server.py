"""An OpenAI-compatible server on a port of this machine that does what a test says."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Handle = Callable[["Handler", dict[str, Any]], None]


class Handler(BaseHTTPRequestHandler):
    """Does what the test says, and keeps what it was asked."""

    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *_: Any) -> None: ...

    def do_GET(self) -> None:
        self.answer({"object": "list", "data": [{"id": "big-model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, dict(self.headers), body))
        self.server.handle_chat(self, body)

    def answer(self, found: Any, status: int = 200, **headers: str) -> None:
        text = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(text)

    def start_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, said: str) -> None:
        self.wfile.write(f"data: {said}\n\n".encode())
        self.wfile.flush()

    def piece(self, text: str) -> None:
        self.event(json.dumps({"choices": [{"index": 0, "delta": {"content": text}}]}))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, handle: Handle) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.handle_chat, self.asked = handle, list[tuple[str, dict[str, str], dict[str, Any]]]()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [body for _, _, body in self.asked]


def choice(text: str, index: int = 0, logprobs: list[float] | None = None) -> dict[str, Any]:
    told = {"content": [{"token": "x", "logprob": value} for value in logprobs]} if logprobs else None
    return {"index": index, "message": {"role": "assistant", "content": text}, "logprobs": told}


def good(handler: Handler, body: dict[str, Any]) -> None:
    if body.get("stream"):
        handler.start_stream()
        for piece in ("\n", "I'm so", " sorry", "."):
            handler.piece(piece)
        handler.event("[DONE]")
        return
    said = [choice(f"I'm so sorry. {i}", i, [-0.5, -1.0]) for i in range(body.get("n", 1))]
    handler.answer({"choices": said})


@contextmanager
def servers() -> Iterator[Callable[[Handle], Server]]:
    """Starts servers, and closes them at the end."""
    running: list[Server] = []

    def start(handle: Handle) -> Server:
        running.append(Server(handle))
        threading.Thread(target=running[-1].serve_forever, args=(0.01,), daemon=True).start()
        return running[-1]

    yield start
    for server in running:
        server.shutdown()
        server.server_close()
