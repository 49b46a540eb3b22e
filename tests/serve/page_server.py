"""A small real server that speaks what the web chat page expects, and misbehaves when it is told to."""

from __future__ import annotations

import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

from attune.emotion.taxonomy import EMOTIONS
from attune.respond.guard.answers import Answers
from attune.web.headers import HEADERS

PAGE = resources.files("attune.serve").joinpath("page")
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

LICENCE = "CC BY-NC 4.0"
PIECES = ["Oh no, I am so sorry. ", "A house can feel so empty without an old friend. ", "How long did you have her?"]
CARE = Answers("GB").to_risk("self-harm", said=[])
CONCEPTS = [
    {"head": "dog", "relation": "IsA", "tail": "friend", "score": 1.92},
    {"head": "died", "relation": "Causes", "tail": "grief", "score": 1.81},
    {"head": "died", "relation": "HasSubevent", "tail": "cry", "score": 1.44},
    {"head": "quiet", "relation": "RelatedTo", "tail": "lonely", "score": 1.37},
    {"head": "house", "relation": "UsedFor", "tail": "living", "score": 0.88},
]
CANDIDATES = [
    {"text": PIECES[0].strip(), "score": -1.12},
    {"text": "I'm sorry for your loss. What was she like?", "score": -1.31},
    {"text": "That must be so hard for you.", "score": -1.74},
]
TIMINGS = {"perceive": 41.0, "recall": 28.0, "decide": 12.0, "say": 530.0, "guard": 9.0, "total": 620.0}


def emotions(top: str = "sad") -> dict[str, float]:
    """A distribution over the 32 emotions with a plain winner."""
    near = {top: 0.46, "lonely": 0.21, "devastated": 0.12, "nostalgic": 0.06, "sentimental": 0.05}
    rest = (1 - sum(near.values())) / (len(EMOTIONS) - len(near))
    return {emotion: near.get(emotion, rest) for emotion in EMOTIONS}


def graph(text: str) -> dict[str, Any]:
    """Words in reading order, the concepts of those that have some, and CLS."""
    words = text.lower().replace(",", " ,").replace(".", " .").split()
    heads = {concept["head"] for concept in CONCEPTS}
    etas = {"died": 0.82, "dog": 0.3, "quiet": 0.45, "house": 0.2}
    valences = {"died": 0.1, "dog": 0.75, "quiet": 0.6}
    nodes: list[dict[str, Any]] = [{"id": 0, "text": "CLS", "kind": "cls", "intensity": 0.0}]
    for word in words:
        nodes.append({"id": len(nodes), "text": word, "kind": "word", "intensity": etas.get(word, 0.05)})
        nodes[-1] |= {"valence": valences.get(word), "turn": 0, "role": "speaker"}
    edges = [{"from": i, "to": i - 1, "relation": "before"} for i in range(2, len(nodes))]
    for concept in CONCEPTS:
        if concept["head"] in heads & set(words):
            good = concept["tail"] in ("friend", "living")
            nodes.append({"id": len(nodes), "text": concept["tail"], "kind": "concept", "intensity": 0.6})
            nodes[-1] |= {"valence": 0.8 if good else 0.15}
            start = 1 + words.index(str(concept["head"]))
            edges.append({"from": start, "to": len(nodes) - 1, "relation": concept["relation"]})
    return {"nodes": nodes, "edges": edges + [{"from": 0, "to": i, "relation": "cls"} for i in range(1, len(nodes))]}


class ChatServer(ThreadingHTTPServer):
    """`mode` says how a reply goes: fine, busy, long, care, break, away; `stores` whether feedback is kept. A reply goes no further
    than its first piece while `going` is cleared."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.reset()

    def reset(self) -> None:
        """Behave well again, and forget what was asked."""
        self.mode, self.stores, self.key, self.wait = "fine", True, "", 1
        self.care = CARE
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.going = threading.Event()
        self.going.set()
        self.stopped = threading.Event()  # set when a client has gone away in the middle of a reply

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """What was sent to an address."""
        return [body for asked, body in self.asked if asked == path]


class Handler(BaseHTTPRequestHandler):
    """GET: the page and the models. POST: a reply, an analysis, feedback."""

    server: ChatServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        if self.path == "/health":
            return self.answer({"status": "ok", "store": "ok" if self.server.stores else "none", "keys": False})
        if self.path == "/v1/models":
            capabilities = ["reply", "perceive"]
            systems = [("attune", True), ("kemp", False)]
            data = [
                {"id": name, "attune": {"licence": LICENCE, "default": usual, "capabilities": capabilities}}
                for name, usual in systems
            ]
            return self.answer({"object": "list", "data": data})
        name = "index.html" if self.path == "/" else self.path.removeprefix("/static/")
        file = PAGE.joinpath(name)
        if "/" in name or not file.is_file():
            return self.answer({"error": {"message": "there is no such page"}}, 404)
        return self.send(file.read_bytes(), TYPES[name.rpartition(".")[2]] + "; charset=utf-8")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        if self.server.key and self.headers["Authorization"] != f"Bearer {self.server.key}":
            return self.answer({"error": {"message": "This server asks for a key."}}, 401)
        if self.path == "/v1/analyze":
            felt = {"emotion": "sad", "emotions": emotions(), "intent": "sympathizing"}
            intents = {"sympathizing": 0.5, "questioning": 0.3, "consoling": 0.1}
            text = body["messages"][-1]["content"]
            return self.answer({**felt, "intents": intents, "concepts": CONCEPTS, "graph": graph(text)})
        if self.path == "/v1/feedback":
            if self.server.stores:
                return self.answer({"id": f"feedback-{len(self.server.asked):032x}"})
            return self.answer({"error": {"message": "This server keeps nothing."}}, 409)
        return self.reply(body)

    def reply(self, body: dict[str, Any]) -> None:
        mode = self.server.mode
        if mode == "busy":
            self.server.mode = "fine"
            return self.answer({"error": {"message": "the queue is full"}}, 429, {"Retry-After": str(self.server.wait)})
        if mode == "long":
            return self.answer({"error": {"message": "The message has too many words."}}, 413)
        if mode == "away":
            self.close_connection = True
            return self.connection.shutdown(socket.SHUT_RDWR)
        frame = {"id": f"r{len(self.server.asked)}", "model": body.get("model", "attune")}
        if not body["stream"]:
            choice = {"index": 0, "message": {"role": "assistant", "content": PIECES[0].strip()}}
            return self.answer({**frame, "choices": [choice], "attune": self.about(body, frame, CANDIDATES)})
        pieces = [self.server.care] if mode == "care" else PIECES
        self.close_connection = True
        self.head(200, "text/event-stream")
        try:
            for piece in pieces:
                choice = {"index": 0, "delta": {"content": piece}, "finish_reason": None}
                self.event({**frame, "choices": [choice]})
                if mode == "break":
                    return None
                self.server.going.wait(20)
                time.sleep(0.02)
            self.event(
                {
                    **frame,
                    "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
                    "attune": self.about(body, frame, CANDIDATES[1:2]),
                }
            )
            self.wfile.write(b"data: [DONE]\n\n")
        except OSError:
            self.server.stopped.set()

    def about(self, body: dict[str, Any], frame: dict[str, str], candidates: list[dict[str, Any]]) -> dict[str, Any]:
        guard = {"risk": None, "why": "", "action": "none"}
        if self.server.mode == "care":
            guard = {"risk": "self-harm", "why": "the words speak of not wanting to live", "action": "answered"}
        intent = body.get("intent") or "sympathizing"
        why = "You asked for it." if body.get("intent") else "People who lose a pet are mostly met with sympathy first."
        return {
            "emotion": "sad",
            "emotions": emotions(),
            "intent": intent,
            "intent_why": why,
            "concepts": CONCEPTS,
            "candidates": candidates,
            "guard": guard,
            "timings": TIMINGS,
            "system": frame["model"],
            "licence": LICENCE,
            "reply_id": frame["id"],
        }

    def event(self, chunk: dict[str, Any]) -> None:
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()

    def answer(self, value: object, status: int = 200, more: dict[str, str] | None = None) -> None:
        self.send(json.dumps(value).encode(), "application/json", status, more)

    def send(self, content: bytes, kind: str, status: int = 200, more: dict[str, str] | None = None) -> None:
        self.head(status, kind, {"Content-Length": str(len(content)), **(more or {})})
        self.wfile.write(content)

    def head(self, status: int, kind: str, more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, **HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
