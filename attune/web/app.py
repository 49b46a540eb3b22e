"""The app factory: a FastAPI app with Attune's errors, headers, limits and logs, and documentation that loads nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware

import attune
from attune.web import errors
from attune.web.headers import SecurityHeaders
from attune.web.limits import BodyLimit
from attune.web.logs import Observe, RequestLog

TEMPLATES = Path(__file__).parent / "templates"


def base_app(
    title: str,
    summary: str,
    *,
    lifespan: Any = None,
    max_body: int = 512 * 1024,
    cors: Sequence[str] = (),
    observe: Observe | None = None,
) -> FastAPI:
    """An app without routes but `/openapi.json` and `/docs`. Other origins may call it only if `cors` names them."""
    middleware = [Middleware(SecurityHeaders)]
    if cors:
        methods, headers = ("GET", "POST", "DELETE"), ("Authorization", "Content-Type")
        middleware.append(
            Middleware(CORSMiddleware, allow_origins=list(cors), allow_methods=methods, allow_headers=headers)
        )
    middleware += [Middleware(RequestLog, observe=observe), Middleware(BodyLimit, limit=max_body)]
    app = FastAPI(
        title=title,
        summary=summary,
        version=attune.__version__,
        docs_url=None,  # the usual pages load their scripts from elsewhere
        redoc_url=None,
        middleware=middleware,
        lifespan=lifespan,
        telemetry={"tracing": False, "metrics": False, "logs": False},  # its records would carry what people wrote
    )
    errors.install(app)

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return HTMLResponse(render("docs.html", api=described(app.openapi())))

    @app.get("/docs/style.css", include_in_schema=False)
    async def style() -> FileResponse:
        return FileResponse(TEMPLATES / "docs.css", headers={"Cache-Control": "no-cache"})

    return app


def render(template: str, **values: Any) -> str:
    """A page from a template of this folder; values are escaped."""
    return _environment().get_template(template).render(**values)


def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )


def described(document: dict[str, Any]) -> dict[str, Any]:
    """An OpenAPI document as the documentation page shows it: operations with their fields, references resolved."""
    schemas = document.get("components", {}).get("schemas", {})
    operations = []
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
            answers = {status: answer["description"] for status, answer in operation["responses"].items()}
            operations.append(
                {
                    "id": operation["operationId"],
                    "method": method.upper(),
                    "path": path,
                    "summary": operation.get("summary", ""),
                    "description": operation.get("description", ""),
                    "parameters": operation.get("parameters", []),
                    "body": _fields(body, schemas) if body else [],
                    "answers": answers,
                }
            )
    return {**document["info"], "operations": operations}


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[dict[str, str]]:
    known = schemas[schema["$ref"].rsplit("/", 1)[-1]] if "$ref" in schema else schema
    return [
        {
            "name": name,
            "kind": _kind(field, schemas),
            "needed": "required" if name in known.get("required", ()) else "",
            "description": field.get("description", ""),
        }
        for name, field in known.get("properties", {}).items()
    ]


def _kind(field: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The type of a field in words: `list of Message`, `string or null`."""
    if "$ref" in field:
        return str(field["$ref"].rsplit("/", 1)[-1])
    if "anyOf" in field:
        return " or ".join(_kind(option, schemas) for option in field["anyOf"])
    if "enum" in field or "const" in field:
        return "one of " + ", ".join(str(value) for value in field.get("enum", [field.get("const")]))
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}), schemas)}"
    return str(field.get("type", "anything"))
