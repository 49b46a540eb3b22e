"""The app: `create_app(agent)` is the whole server, ready for any ASGI server."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import FileResponse
from fastapi.staticfiles import StaticFiles
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.concurrency import run_in_threadpool
from starlette.types import Scope

import attune
from attune.errors import SettingsError
from attune.serve import chat, keeping
from attune.serve.batcher import Talker
from attune.serve.desk import Desk, Door
from attune.serve.messages import as_turns
from attune.serve.metrics import Metrics
from attune.serve.schemas import AboutModel, AnalysisBody, AnalyzeRequest, Health, Model, ModelList
from attune.serve.serving import Here, Owner, Serving
from attune.serve.settings import ServeSettings
from attune.serve.store import Store
from attune.web.app import base_app
from attune.web.errors import Problem, responses
from attune.web.keys import KeyFile

PAGE = Path(__file__).parent / "page"
router = APIRouter(tags=["server"])


def create_app(
    agents: Talker | Mapping[str, Talker],
    settings: ServeSettings | None = None,
    *,
    keys: KeyFile | None = None,
    store: Store | None = None,
) -> FastAPI:
    """An app that serves one agent, or several under their names; the first is the default.

    Agents, store and threads are closed when the app shuts down.
    """
    by_name = agents if isinstance(agents, Mapping) else {agents.name: agents}
    if not by_name:
        raise SettingsError("there is no agent to serve")
    settings, metrics = settings or ServeSettings(), Metrics()
    desks = {name: Desk(agent, settings, metrics) for name, agent in by_name.items()}
    serving = Serving(desks, settings, metrics, Door(settings.queue, metrics), int(time.time()), keys, store)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        await run_in_threadpool(serving.close)

    app = base_app(
        "Attune",
        "Empathetic dialogue over HTTP.",
        lifespan=lifespan,
        max_body=settings.max_body,
        cors=settings.cors,
        observe=metrics.request,
    )
    app.state.serving = serving
    for part in (chat.router, router, keeping.router):
        app.include_router(part)
    app.mount("/static", _Static(directory=PAGE), name="static")
    return app


class _Static(StaticFiles):
    """Files of the page; a browser asks each time whether they have changed."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers["Cache-Control"] = "no-cache"
        return response


@router.get("/", include_in_schema=False)
async def page() -> FileResponse:
    """The web chat."""
    return FileResponse(PAGE / "index.html", headers={"Cache-Control": "no-cache"})


@router.get("/v1/models", response_model=ModelList, responses=responses(401))
async def models(here: Here, owner: Owner) -> ModelList:
    """The systems that can be talked with, and their licences. The first is the default."""
    return ModelList(data=[_model(here, name) for name in here.names])


@router.get("/v1/models/{model:path}", response_model=Model, responses=responses(401, 404))
async def model(model: str, here: Here, owner: Owner) -> Model:
    """One system."""
    return _model(here, here.desk(model)[0])


def _model(here: Serving, name: str) -> Model:
    about = AboutModel(licence=here.desks[name].agent.licence, default=name == here.names[0])
    return Model(id=name, created=here.started, attune=about)


@router.post("/v1/analyze", response_model=AnalysisBody, responses=responses(400, 401, 404, 413, 422, 429, 503))
async def analyze(request: Request, wanted: AnalyzeRequest, here: Here, owner: Owner) -> AnalysisBody:
    """What is felt, what kind of reply would help, what is commonly known, and the emotional context graph."""
    name, desk = here.desk(wanted.model)
    turns, _ = as_turns(wanted.messages, here.settings)
    leave = here.door.enter()
    try:
        found = await desk.analyze(turns, request)
    finally:
        leave()
    return AnalysisBody(model=name, **found.to_dict())


@router.get("/health", response_model=Health, responses=responses(503))
async def health(here: Here) -> Health:
    """Whether the server works. Open to everybody; it tells nothing about anybody."""
    if not all(desk.alive() for desk in here.desks.values()):
        raise Problem(503, "an agent has stopped", code="agent_stopped")
    store: Literal["none", "ok", "away"] = "none"
    if here.store is not None:
        store = "ok" if await run_in_threadpool(here.store.alive) else "away"
    return Health(version=attune.__version__, systems=here.names, store=store, keys=here.keys is not None)


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}, **responses(401)})
async def metrics(here: Here, owner: Owner) -> Response:
    """Counts and times for Prometheus."""
    return Response(here.metrics.text(), media_type=CONTENT_TYPE_LATEST)
