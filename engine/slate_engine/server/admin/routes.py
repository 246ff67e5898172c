"""The paths of the admin API. Each is listed once, with what it takes, so that its documentation cannot differ from it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from aiohttp import web
from pydantic import BaseModel, ValidationError

from slate_engine.admin.checkpoints import (
    CheckpointOptions,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slate_engine.gc.discovery import find_clones
from slate_engine.gc.explain import explain
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.server.admin.documents import checkpoint_document, explanation_document, status_document
from slate_engine.server.admin.operations import Operations
from slate_engine.server.admin.requests import CheckpointRequest, OperationRequest, RefreshRequest
from slate_engine.server.admin.work import milliseconds
from slate_engine.server.http.problems import Problem
from slate_engine.state.checkpoints import CheckpointMissing
from slate_engine.state.manifest import Checkpoint

MOST_EXPLAINED = 10_000


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    summary: str
    handler: Callable[[web.Request], Awaitable[web.Response]]
    takes: type[BaseModel] | None = None
    status: int = 200


class AdminApi:
    """The admin API of one database."""

    def __init__(self, files: DatabaseFiles, operations: Operations, collection: GcOptions) -> None:
        self._files = files
        self._operations = operations
        self._collection = collection
        self.routes = (
            Route("GET", "/v1/status", "How the database is", self._status),
            Route("GET", "/v1/checkpoints", "All checkpoints, or those of a name (?name=)", self._list_checkpoints),
            Route("POST", "/v1/checkpoints", "Make a checkpoint", self._create_checkpoint, CheckpointRequest, 201),
            Route("GET", "/v1/checkpoints/{id}", "One checkpoint", self._get_checkpoint),
            Route(
                "PUT",
                "/v1/checkpoints/{id}",
                "Make a checkpoint of this id; harmless to repeat",
                self._put_checkpoint,
                CheckpointRequest,
            ),
            Route(
                "PATCH", "/v1/checkpoints/{id}", "Change how long it lives", self._refresh_checkpoint, RefreshRequest
            ),
            Route("DELETE", "/v1/checkpoints/{id}", "Delete it, if it is there", self._delete_checkpoint, None, 204),
            Route("GET", "/v1/operations", "All operations, the oldest first", self._list_operations),
            Route("GET", "/v1/operations/{id}", "How far an operation is", self._get_operation),
            Route(
                "PUT",
                "/v1/operations/{id}",
                "Begin work that may take long, under an id of the caller's; harmless to repeat",
                self._put_operation,
                OperationRequest,
                202,
            ),
            Route("GET", "/v1/explain", "What holds each object (?limit=, ?verdict=)", self._explain),
        )

    def add_to(self, application: web.Application) -> None:
        for route in self.routes:
            application.router.add_route(route.method, route.path, route.handler)

    # --- checkpoints ---------------------------------------------------------------------------------------------

    async def _list_checkpoints(self, request: web.Request) -> web.Response:
        found = await list_checkpoints(self._files, request.query.get("name"))
        return web.json_response({"checkpoints": [checkpoint_document(each) for each in found]})

    async def _create_checkpoint(self, request: web.Request) -> web.Response:
        return await self._checkpoint(await taken(request, CheckpointRequest), None, 201)

    async def _put_checkpoint(self, request: web.Request) -> web.Response:
        return await self._checkpoint(await taken(request, CheckpointRequest), id_of(request), 200)

    async def _checkpoint(self, wanted: CheckpointRequest, id: UUID | None, status: int) -> web.Response:
        lifetime_ms = milliseconds(wanted.lifetime_seconds)
        options = CheckpointOptions(lifetime_ms, wanted.source, wanted.name, id, whole_log=True)
        made = await create_checkpoint(self._files, options)
        return web.json_response(checkpoint_document(await self._found(made.id)), status=status)

    async def _get_checkpoint(self, request: web.Request) -> web.Response:
        return web.json_response(checkpoint_document(await self._found(id_of(request))))

    async def _refresh_checkpoint(self, request: web.Request) -> web.Response:
        wanted = await taken(request, RefreshRequest)
        await refresh_checkpoint(self._files, id_of(request), milliseconds(wanted.lifetime_seconds))
        return web.json_response(checkpoint_document(await self._found(id_of(request))))

    async def _delete_checkpoint(self, request: web.Request) -> web.Response:
        await delete_checkpoint(self._files, id_of(request))
        return web.Response(status=204)

    async def _found(self, id: UUID) -> Checkpoint:
        for each in await list_checkpoints(self._files):
            if each.id == id:
                return each
        raise CheckpointMissing(id)

    # --- operations ----------------------------------------------------------------------------------------------

    async def _put_operation(self, request: web.Request) -> web.Response:
        wanted = await taken(request, OperationRequest)
        work = wanted.work.model_dump(mode="json")
        operation = await self._operations.submit(id_of(request), work)
        return web.json_response(operation.document(), status=200 if operation.finished else 202)

    async def _get_operation(self, request: web.Request) -> web.Response:
        id = id_of(request)
        operation = await self._operations.get(id)
        if operation is None:
            raise Problem(404, "no-operation", "There is no such operation", f"no operation {id} was ever begun here")
        return web.json_response(operation.document())

    async def _list_operations(self, request: web.Request) -> web.Response:
        return web.json_response({"operations": [each.document() for each in await self._operations.all()]})

    # --- looking -------------------------------------------------------------------------------------------------

    async def _status(self, request: web.Request) -> web.Response:
        return web.json_response(await status_document(self._files))

    async def _explain(self, request: web.Request) -> web.Response:
        limit = _number(request, "limit", 1000)
        clones = await find_clones(self._files.store, self._files.runtime)
        found = await explain(self._files, self._collection, clones)
        return web.json_response(explanation_document(found, limit, request.query.get("verdict")))


async def taken(request: web.Request, model: type[Any]) -> Any:
    """The document that was sent, checked."""
    try:
        sent = json.loads(await request.read() or b"{}")
    except ValueError as error:
        raise Problem(400, "not-json", "This is no JSON", f"the body cannot be read: {error}") from None
    try:
        return model.model_validate(sent)
    except ValidationError as mistakes:
        told = [{"at": ".".join(map(str, each["loc"])), "message": each["msg"]} for each in mistakes.errors()]
        detail = "; ".join(f"{each['at'] or 'the document'}: {each['message']}" for each in told)
        raise Problem(422, "invalid-document", "The document is wrong", detail, errors=told) from None


def id_of(request: web.Request) -> UUID:
    text = request.match_info["id"]
    try:
        return UUID(text)
    except ValueError:
        raise Problem(400, "not-a-uuid", "This is no id", f"{text!r} is not a UUID") from None


def _number(request: web.Request, name: str, otherwise: int) -> int:
    text = request.query.get(name, str(otherwise))
    if not text.isdigit() or int(text) > MOST_EXPLAINED:
        raise Problem(400, "not-a-number", "This is no number", f"{name} is a whole number up to {MOST_EXPLAINED}")
    return int(text)
