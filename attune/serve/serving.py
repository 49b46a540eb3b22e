"""What the routes share: the agents at their desks, who may call, and where things are kept."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from attune.errors import AttuneError, did_you_mean
from attune.serve.desk import Desk, Door
from attune.serve.metrics import Metrics
from attune.serve.settings import ServeSettings
from attune.serve.store import Store
from attune.web.errors import Problem
from attune.web.keys import KeyFile

logger = logging.getLogger("attune.serve")
_bearer = HTTPBearer(
    auto_error=False, description="An API key (`attune serve keys add NAME`), if this server has keys."
)


@dataclass
class Serving:
    """The parts of a running server. The first desk is the default."""

    desks: dict[str, Desk]
    settings: ServeSettings
    metrics: Metrics
    door: Door
    started: int
    keys: KeyFile | None = None
    store: Store | None = None
    names: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = list(self.desks)

    def desk(self, model: str) -> tuple[str, Desk]:
        """The system that a request names, by its name or as `default`."""
        name = self.names[0] if model == "default" else model
        if name not in self.desks:
            message = did_you_mean(model[:100], [*self.names, "default"], "system")
            raise Problem(404, message, code="model_not_found", param="model")
        return name, self.desks[name]

    def kept(self) -> Store:
        """The store, or 404 where nothing is kept."""
        if self.store is None:
            raise Problem(404, "this server keeps nothing (it was started without --store)", code="no_store")
        return self.store

    def close(self) -> None:
        for desk in self.desks.values():
            desk.close()
        if self.store is not None:
            self.store.close()


def serving(request: Request) -> Serving:
    """The server that a request came to."""
    found: Serving = request.app.state.serving
    return found


def owner(request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> str:
    """The name of the key a request came with; "" on a server without keys. 401 for everybody else."""
    keys = serving(request).keys
    if keys is None:
        return ""
    try:
        name = keys.owner(credentials.credentials) if credentials else None
    except (AttuneError, OSError) as error:
        logger.error("keys cannot be read", extra={"fields": {"reason": str(error)}})
        raise Problem(503, "the server cannot read its keys", code="keys_unreadable") from None
    if name is None:
        said = "this key is not known" if credentials else "an API key is needed"
        raise Problem(
            401, f"{said}: Authorization: Bearer KEY", code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"}
        )
    return name


Here = Annotated[Serving, Depends(serving)]
Owner = Annotated[str, Depends(owner)]
