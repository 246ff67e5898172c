"""The OpenAPI document, made from the routes and the documents that they take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel

from slate_engine.server.admin.routes import Route

_PROBLEM = {
    "description": "What went wrong (RFC 9457)",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
}


def openapi(routes: Sequence[Route], version: str) -> dict[str, Any]:
    schemas: dict[str, Any] = {
        "Problem": {
            "type": "object",
            "required": ["type", "title", "status", "detail"],
            "properties": {
                "type": {"type": "string"},
                "title": {"type": "string"},
                "status": {"type": "integer"},
                "detail": {"type": "string"},
            },
        }
    }
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, schemas)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slatekeeper admin API", "version": version},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route, schemas: dict[str, Any]) -> dict[str, Any]:
    given = {} if route.gives is None else _content(route.gives, schemas)
    answers = {str(status): {"description": text, **given} for status, text in route.statuses.items()}
    made: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "responses": {**answers, "default": _PROBLEM},
    }
    if parameters := _parameters(route):
        made["parameters"] = parameters
    if route.takes is not None:
        made["requestBody"] = {"required": True, **_content(route.takes, schemas)}
    return made


def _parameters(route: Route) -> list[dict[str, Any]]:
    ids = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
        for name in re.findall(r"{(\w+)}", route.path)
    ]
    asked = [
        {"name": each.name, "in": "query", "description": each.summary, "schema": dict(each.schema)}
        for each in route.query
    ]
    return [*ids, *asked]


def _content(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    """A document of this kind; what it is goes to ``schemas``."""
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schema.pop("$defs", {}))
    schemas[model.__name__] = schema
    return {"content": {"application/json": {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}}
