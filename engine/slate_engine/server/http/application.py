"""The HTTP application that every service has: who may ask, what goes wrong, and the four things that all of them answer."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from slate_engine.errors import Error
from slate_engine.runtime import Runtime, uuid4
from slate_engine.server.bill import Bill
from slate_engine.server.config import HttpConfig
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.problems import Problem, not_found, unauthorized
from slate_engine.server.logs import request_id

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
REQUEST_ID = "X-Request-Id"


def application(
    config: HttpConfig,
    gate: Gate,
    health: Health,
    registry: CollectorRegistry,
    status: Callable[[], Mapping[str, Any]],
    runtime: Runtime,
) -> web.Application:
    """An application with the common paths; a service adds its own."""
    made = web.Application(
        middlewares=[_named(runtime), _guarded(config, gate)], client_max_size=config.max_request_bytes
    )

    bill = Bill(registry, runtime)

    async def livez(request: web.Request) -> web.Response:
        return _verdict(health.dead(), "alive")

    async def readyz(request: web.Request) -> web.Response:
        return _verdict(health.not_ready(), "ready")

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def show_status(request: web.Request) -> web.Response:
        reasons = health.not_ready()
        return web.json_response({**status(), "ready": not reasons, "reasons": reasons, "requests": bill.document()})

    made.router.add_get("/livez", livez)
    made.router.add_get("/readyz", readyz)
    made.router.add_get("/metrics", metrics)
    made.router.add_get("/status", show_status)
    return made


def _verdict(reasons: list[str], good: str) -> web.Response:
    """Plain text: this is what `kubectl describe` shows of a probe that fails."""
    if not reasons:
        return web.Response(text=good + "\n")
    return web.Response(status=503, text=f"not {good}: " + "; ".join(reasons) + "\n")


def _named(runtime: Runtime) -> Any:
    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every request has a name, the caller's or ours, which is in its log lines and its answer; and what goes wrong is
        a problem document."""
        given = request.headers.get(REQUEST_ID, "")
        name = given if given.isascii() and given.isprintable() and 0 < len(given) <= 128 else uuid4(runtime).hex
        token = request_id.set(name)
        try:
            response = await _answered(request, handler)
            response.headers[REQUEST_ID] = name
            return response
        finally:
            request_id.reset(token)

    return middleware


async def _answered(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except Problem as problem:
        return problem.response()
    except Error as error:
        log.info("%s %s was refused: %s", request.method, request.path, error.message)
        return Problem.of(error).response()
    except web.HTTPNotFound:
        return not_found(request.path).response()
    except web.HTTPException as error:
        return Problem(
            error.status, "http", error.reason, f"{request.method} {request.path}: {error.reason}"
        ).response()
    except Exception:
        log.exception("%s %s failed", request.method, request.path)
        detail = f"see the log, where this request is {request_id.get()}"
        return Problem(500, "internal", "The service failed", detail).response()


def _guarded(config: HttpConfig, gate: Gate) -> Any:
    open_paths = {f"/{name}" for name in config.open}

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        if gate.shut and request.path not in open_paths:
            scheme, _, token = request.headers.get("Authorization", "").partition(" ")
            if scheme.lower() != "bearer" or not gate.admits(token.strip().encode(errors="surrogateescape")):
                raise unauthorized()
        return await handler(request)

    return middleware
