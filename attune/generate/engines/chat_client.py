"""Asks a server that speaks OpenAI's chat completions; what goes wrong becomes one line that says what to do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import unquote, urlsplit

import httpx

from attune.errors import AttuneError, MissingError, SettingsError

URL, KEY, MODEL = "ATTUNE_ENGINE_URL", "ATTUNE_ENGINE_KEY", "ATTUNE_ENGINE_MODEL"
AGAIN = {408, 409, 425, 429, 500, 502, 503, 504}  # may be different in a moment
LONGEST_WAIT = 10.0  # seconds before another try, whatever the server asks for


class RemoteError(AttuneError):
    """The server is away, or does not answer as it should."""


class RemoteRefusal(RemoteError):
    """The server does not take this one request as it stands, or has nothing to say to it."""


@dataclass(frozen=True)
class Address:
    """Where a server is, and how patiently it is asked.

    A user and password in the URL are taken out of it, so that nothing that names the server tells them.

    >>> Address("http://me:secret@localhost:8000").url
    'http://localhost:8000/v1'
    """

    url: str
    key: str = field(default="", repr=False)
    model: str = ""
    """Empty: the first that the server lists."""
    tries: int = 4
    pause: float = 0.5
    """Seconds before the second try; twice as long before each further one."""
    connecting: float = 5.0
    """Seconds to wait for a connection."""
    silence: float = 60.0
    """Seconds without a word from the server."""
    login: tuple[str, str] | None = field(default=None, init=False, repr=False)
    """The user and password that were in the URL."""

    def __post_init__(self) -> None:
        parts = urlsplit(self.url.strip())
        if parts.scheme not in ("http", "https") or not parts.netloc:
            shown = self.url.rpartition("@")[2]
            raise SettingsError(f"{URL}: '{shown}' is no address; expected one such as http://localhost:8000/v1")
        login, _, host = parts.netloc.rpartition("@")
        path = parts.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
        object.__setattr__(self, "url", f"{parts.scheme}://{host}{path or '/v1'}")
        if login:
            user, _, password = login.partition(":")
            object.__setattr__(self, "login", (unquote(user), unquote(password)))
        if self.tries < 1:
            raise SettingsError(f"tries must be at least 1, not {self.tries}")

    @classmethod
    def from_environment(cls) -> Self:
        """By `ATTUNE_ENGINE_URL`, `ATTUNE_ENGINE_KEY` and `ATTUNE_ENGINE_MODEL`; only the first is needed."""
        url = os.environ.get(URL, "")
        if not url:
            raise MissingError(
                f"no remote engine: set {URL} to the address of an OpenAI-compatible server, such as http://localhost:8000/v1"
            )
        return cls(url, os.environ.get(KEY, ""), os.environ.get(MODEL, ""))


class ChatClient:
    """A connection to one server. Threads may share it."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._model = address.model
        headers = {"Authorization": f"Bearer {address.key}"} if address.key else {}
        limit = httpx.Timeout(address.silence, connect=address.connecting)
        self._http = httpx.Client(headers=headers, auth=address.login, timeout=limit, follow_redirects=True)

    def close(self) -> None:
        self._http.close()

    @property
    def model(self) -> str:
        """The model that is asked: the one in the address, or the first that the server has."""
        if not self._model:
            with self._opened("GET", "/models", None) as answer:
                found = _read_json(answer, self.address.url)
            try:
                self._model = str(found["data"][0]["id"])
            except (KeyError, IndexError, TypeError):
                raise RemoteError(f"{self.address.url}: the server lists no model; set {MODEL}") from None
        return self._model

    def complete(self, body: dict[str, Any]) -> dict[str, Any]:
        """The whole answer to a request."""
        with self._opened("POST", "/chat/completions", {"model": self.model, **body}) as answer:
            return _read_json(answer, self.address.url)

    def stream(self, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The chunks of an answer as they come. Closing the iterator closes the connection."""
        with self._opened("POST", "/chat/completions", {"model": self.model, **body, "stream": True}) as answer:
            try:
                for line in answer.iter_lines():
                    if not line.startswith("data:"):
                        continue  # a comment, or the end of an event
                    if (said := line[5:].strip()) == "[DONE]":
                        return
                    try:
                        chunk = json.loads(said)
                    except ValueError:
                        raise RemoteError(f"{self.address.url}: the stream has a line that is no JSON") from None
                    if "error" in chunk:
                        raise RemoteError(f"{self.address.url}: {_message(chunk)}")
                    yield chunk
            except httpx.HTTPError as error:
                raise RemoteError(f"{self.address.url}: the answer broke off ({_why(error)})") from None
        raise RemoteError(f"{self.address.url}: the answer broke off before its end")

    @contextmanager
    def _opened(self, method: str, path: str, body: dict[str, Any] | None) -> Iterator[httpx.Response]:
        """A good answer, whose text may still be coming. What may pass is tried again, with longer and longer pauses."""
        answer = self._tried(method, path, body)
        try:
            yield answer
        finally:
            answer.close()

    def _tried(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        url = self.address.url
        for attempt in range(1, self.address.tries + 1):
            last = attempt == self.address.tries
            pause = self.address.pause * 2 ** (attempt - 1)
            try:
                answer = self._http.send(self._http.build_request(method, url + path, json=body), stream=True)
            except httpx.TransportError as error:
                if last:
                    raise RemoteError(
                        f"the engine at {url} is away ({_why(error)}, {attempt} tries); start it, or unset {URL}"
                    ) from None
            else:
                if answer.is_success:
                    return answer
                trouble = _refused(answer, url, attempt)
                asked = answer.headers.get("retry-after", "")
                answer.close()
                if last or answer.status_code not in AGAIN:
                    raise trouble
                pause = max(pause, float(asked)) if asked.replace(".", "", 1).isdigit() else pause
            time.sleep(min(pause, LONGEST_WAIT))
        raise AssertionError("the last try returns or raises")


def _refused(answer: httpx.Response, url: str, attempt: int) -> RemoteError:
    """What an answer that is no good means."""
    status = answer.status_code
    try:
        answer.read()
        said = _message(answer.json())
    except (ValueError, httpx.HTTPError):
        said = answer.reason_phrase
    if status in (401, 403):
        return RemoteError(f"{url}: the server does not accept the key ({status}); set {KEY}")
    if status == 404:
        return RemoteError(f"{url}: not found ({said}); check {URL} and {MODEL}")
    if status == 429:
        return RemoteError(f"{url}: the server has too much to do ({said}, {attempt} tries); try again later")
    if status >= 500:
        return RemoteError(f"{url}: the server failed with {status} ({said}, {attempt} tries)")
    return RemoteRefusal(f"{url}: the server refuses the request with {status}: {said}")


def _read_json(answer: httpx.Response, url: str) -> dict[str, Any]:
    try:
        answer.read()
        found = answer.json()
    except httpx.HTTPError as error:
        raise RemoteError(f"{url}: the answer broke off ({_why(error)})") from None
    except ValueError:
        raise RemoteError(f"{url}: the answer is no JSON; is it an OpenAI-compatible server?") from None
    if not isinstance(found, dict):
        raise RemoteError(f"{url}: the answer is not of the form of an OpenAI-compatible server")
    return found


def _message(found: Any) -> str:
    """The server's own words, on one line."""
    error = found.get("error", found) if isinstance(found, dict) else found
    said = error.get("message") or error.get("detail") if isinstance(error, dict) else error
    return " ".join(str(said or error).split())[:200]


def _why(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.TimeoutException):
        return "it did not answer in time"
    if isinstance(error, httpx.ConnectError):
        return "no connection"
    return " ".join(str(error).split())[:100] or type(error).__name__
