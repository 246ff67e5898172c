"""The OpenAPI document, made from the routes and the documents that they take."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
    made: dict[str, Any] = {
        "summary": route.summary,
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}{route.path}").strip("_"),
        "responses": {str(route.status): {"description": "done"}, "default": _PROBLEM},
    }
    if names := re.findall(r"{(\w+)}", route.path):
        made["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string", "format": "uuid"}}
            for name in names
        ]
    if route.takes is not None:
        schema = route.takes.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas.update(schema.pop("$defs", {}))
        schemas[route.takes.__name__] = schema
        reference = {"$ref": f"#/components/schemas/{route.takes.__name__}"}
        made["requestBody"] = {"required": True, "content": {"application/json": {"schema": reference}}}
    return made
