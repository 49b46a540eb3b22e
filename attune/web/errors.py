"""Errors over HTTP: one JSON shape, that of the OpenAI API, for everything that can go wrong.

What the caller sent is never repeated in a message that is also logged, and no traceback and no address of an engine leaves
the server.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from attune.errors import DataError, SettingsError
from attune.generate.engines.chat_client import RemoteError, RemoteRefusal

logger = logging.getLogger("attune.web")
AWAY = 5  # seconds after which an engine that is away may be asked again
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}


class ErrorDetail(BaseModel):
    """What went wrong, in one sentence, and which part of the request it is about."""

    message: str
    type: str = Field(description="The kind of error, as the OpenAI API names kinds.")
    param: str | None = Field(None, description="The field that is wrong, e.g. messages.0.content.")
    code: str | None = Field(None, description="A word for programs, e.g. model_not_found.")


class ErrorBody(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


class Problem(HTTPException):
    """An answer other than success, raised anywhere below a route.

    >>> Problem(404, "no system 'kmep'", code="model_not_found").body()["error"]["type"]
    'invalid_request_error'
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code, self.param = code, param

    def body(self) -> dict[str, Any]:
        kind = "server_error" if self.status_code >= 500 else _TYPES.get(self.status_code, "invalid_request_error")
        return {"error": {"message": self.detail, "type": kind, "param": self.param, "code": self.code}}

    def response(self) -> Response:
        # in ASCII, because what the caller is told of may hold half a character, which cannot be sent otherwise
        return Response(json.dumps(self.body()), self.status_code, self.headers, "application/json")


def responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The answers other than success that a route documents: `responses=responses(404, 422)`."""
    meanings = {
        400: "The request cannot be read.",
        401: "A key is needed, or this one is not known.",
        403: "Not allowed here.",
        404: "There is no such thing.",
        413: "The body is larger than the server reads.",
        422: "Something in the request is wrong; `param` says what.",
        429: "Too many requests are waiting. Come back after `Retry-After` seconds.",
        502: "The engine that says the replies refuses this request, or has nothing to say to it.",
        503: "No answer before the deadline, or an engine that is away. Come back after `Retry-After` seconds.",
    }
    return {status: {"model": ErrorBody, "description": meanings[status]} for status in statuses}


def install(app: FastAPI) -> None:
    """Answer every error of an app in the one shape."""
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RequestValidationError, _invalid)
    for kind in (DataError, SettingsError, RemoteError):  # others break, and are logged (`attune.web.logs`)
        app.add_exception_handler(kind, _attune)


def problem_of(error: Exception) -> Problem:
    """What a caller is told of an error: their own mistake, trouble with the engine, or that something broke here.

    >>> problem_of(RemoteError("the engine at http://10.0.0.7/v1 is away")).code
    'engine_away'
    """
    if isinstance(error, DataError | SettingsError):
        return Problem(422, str(error), code="invalid_request")
    if isinstance(error, RemoteRefusal):
        return Problem(502, "the engine that says the replies has none to this request", code="engine_refused")
    if isinstance(error, RemoteError):
        message = f"the engine that says the replies does not answer; try again in {AWAY} s"
        return Problem(503, message, code="engine_away", headers={"Retry-After": str(AWAY)})
    return Problem(500, "something broke on the server; its log says what", code="internal_error")


async def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if isinstance(error, Problem):
        return error.response()
    return Problem(error.status_code, str(error.detail), headers=error.headers).response()


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    message, param = first_mistake(error.errors())
    return Problem(422, message, code="invalid_request", param=param).response()


async def _attune(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    if problem.status_code >= 500:
        logger.error("the engine failed", exc_info=error)
    return problem.response()


def first_mistake(errors: Sequence[Mapping[str, Any]]) -> tuple[str, str | None]:
    """One sentence about the first mistake that pydantic found, and the field it is in; never the value itself.

    >>> first_mistake([{"loc": ("body", "messages", 0, "role"), "msg": "Field required", "type": "missing"}])
    ('messages.0.role: Field required', 'messages.0.role')
    """
    first = errors[0]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first.get('ctx', {}).get('error', 'it cannot be read')}", None
    # the names of union members stand between field names and are of no use to the caller
    field = ".".join(str(part) for part in first["loc"][1:] if not _names_a_type(part)) or None
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{field or 'the body'}: {first['msg']}{more}", field


def _names_a_type(part: object) -> bool:
    return isinstance(part, str) and (part in ("str", "int") or "[" in part)
