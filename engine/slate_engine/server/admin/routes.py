"""The paths of the admin API. Each is listed once, with what it takes, so that its documentation cannot differ from it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field
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
from slate_engine.admin.ownership import Owner, claim, owner_of, release
from slate_engine.gc.discovery import find_clones
from slate_engine.gc.explain import explain
from slate_engine.gc.explanation import Verdict
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.server.admin.answers import (
    CheckpointAnswer,
    CheckpointsAnswer,
    CompactionsAnswer,
    ExplanationAnswer,
    OperationAnswer,
    OperationsAnswer,
    OwnerAnswer,
    StatusAnswer,
)
from slate_engine.server.admin.documents import (
    checkpoint_document,
    compactions_document,
    explanation_document,
    status_document,
)
from slate_engine.server.admin.operations import Operations
from slate_engine.server.admin.requests import (
    CheckpointRequest,
    CloneOperation,
    CopyOperation,
    OperationRequest,
    OwnerRequest,
    RefreshRequest,
)
from slate_engine.server.admin.work import milliseconds
from slate_engine.server.http.problems import Problem
from slate_engine.state.checkpoints import CheckpointMissing
from slate_engine.state.manifest import Checkpoint

MOST_EXPLAINED = 10_000
BODY_SECONDS = 10.0
"""For a document to come. Who waits for one that never does keeps a place at the door that health is asked for at."""
FOLDERS = ("manifest", "compactions", "wal", "compacted", "gc")
"""What a database at the very top of a store is made of."""


@dataclass(frozen=True)
class Query:
    """A parameter after the question mark; ``schema`` is what it may be."""

    name: str
    summary: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Route:
    """``statuses`` are those of success, all with a document of the kind ``gives``."""

    method: str
    path: str
    summary: str
    handler: Callable[[web.Request], Awaitable[web.Response]]
    gives: type[BaseModel] | None
    takes: type[BaseModel] | None = None
    statuses: Mapping[int, str] = field(default_factory=lambda: {200: "done"})
    query: tuple[Query, ...] = ()


_NAMED = (Query("name", "only those of this name", {"type": "string"}),)
_CHOSEN = (
    Query("limit", "how many objects are listed", {"type": "integer", "minimum": 0, "maximum": MOST_EXPLAINED}),
    Query("verdict", "only objects with this verdict", {"type": "string", "enum": [each.value for each in Verdict]}),
)
_MADE = {201: "made"}
_GONE = {204: "gone"}
_BEGUN = {200: "it has ended, as `state` says", 202: "it is under way: ask for it again"}


class AdminApi:
    """The admin API of one database."""

    def __init__(self, files: DatabaseFiles, operations: Operations, collection: GcOptions) -> None:
        self._files = files
        self._operations = operations
        self._collection = collection
        id = "/v1/checkpoints/{id}"
        self.routes = (
            Route("GET", "/v1/status", "How the database is", self._status, StatusAnswer),
            Route("GET", "/v1/owner", "Who cares for it", self._get_owner, OwnerAnswer),
            Route("PUT", "/v1/owner", "Care for it, if nobody else does", self._put_owner, OwnerAnswer, OwnerRequest),
            Route(
                "DELETE", "/v1/owner/{id}", "Give it back, if this is its owner", self._delete_owner, None, None, _GONE
            ),
            Route("GET", "/v1/checkpoints", "All checkpoints", self._list_checkpoints, CheckpointsAnswer, query=_NAMED),
            Route(
                "POST",
                "/v1/checkpoints",
                "Make a checkpoint",
                self._create_checkpoint,
                CheckpointAnswer,
                CheckpointRequest,
                _MADE,
            ),
            Route("GET", id, "One checkpoint", self._get_checkpoint, CheckpointAnswer),
            Route(
                "PUT",
                id,
                "Make a checkpoint of this id; harmless to repeat",
                self._put_checkpoint,
                CheckpointAnswer,
                CheckpointRequest,
            ),
            Route("PATCH", id, "Change how long it lives", self._refresh_checkpoint, CheckpointAnswer, RefreshRequest),
            Route("DELETE", id, "Delete it, if it is there", self._delete_checkpoint, None, None, _GONE),
            Route("GET", "/v1/operations", "All operations, the oldest first", self._list_operations, OperationsAnswer),
            Route("GET", "/v1/operations/{id}", "How far an operation is", self._get_operation, OperationAnswer),
            Route(
                "PUT",
                "/v1/operations/{id}",
                "Begin work that may take long, under an id of the caller's; harmless to repeat",
                self._put_operation,
                OperationAnswer,
                OperationRequest,
                _BEGUN,
            ),
            Route(
                "GET",
                "/v1/compactions",
                "What the compactor has planned, and who does it",
                self._list_compactions,
                CompactionsAnswer,
            ),
            Route("GET", "/v1/explain", "What holds each object", self._explain, ExplanationAnswer, query=_CHOSEN),
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

    # --- owners --------------------------------------------------------------------------------------------------

    async def _get_owner(self, request: web.Request) -> web.Response:
        owner = await owner_of(self._files)
        return web.json_response({"owner": None if owner is None else asdict(owner)})

    async def _put_owner(self, request: web.Request) -> web.Response:
        wanted = await taken(request, OwnerRequest)
        claimant = Owner(str(wanted.uid), wanted.namespace, wanted.name)
        instead_of = None if wanted.instead_of is None else str(wanted.instead_of)
        return web.json_response({"owner": asdict(await claim(self._files, claimant, wanted.expect, instead_of))})

    async def _delete_owner(self, request: web.Request) -> web.Response:
        await release(self._files, str(id_of(request)))
        return web.Response(status=204)

    # --- operations ----------------------------------------------------------------------------------------------

    async def _put_operation(self, request: web.Request) -> web.Response:
        wanted = await taken(request, OperationRequest)
        check_place(wanted.work, self._files.path)
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

    async def _list_compactions(self, request: web.Request) -> web.Response:
        return web.json_response(await compactions_document(self._files))

    async def _explain(self, request: web.Request) -> web.Response:
        limit, verdict = _number(request, "limit", 1000), _verdict(request)
        # For whom a checkpoint is takes a look at every database of the store, which not everybody needs to know.
        named = request.query.get("clones") != "false"
        clones = await find_clones(self._files.store, self._files.runtime) if named else None
        found = await explain(self._files, self._collection, clones)
        return web.json_response(explanation_document(found, limit, verdict))


async def taken(request: web.Request, model: type[Any]) -> Any:
    """The document that was sent, checked."""
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise Problem(408, "too-slow", "The document did not come", f"send it within {BODY_SECONDS:g} s") from None
    try:
        sent = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
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
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) > MOST_EXPLAINED:
        raise Problem(400, "not-a-number", "This is no number", f"{name} is a whole number up to {MOST_EXPLAINED}")
    return int(text)


def _verdict(request: web.Request) -> str | None:
    text, known = request.query.get("verdict"), [each.value for each in Verdict]
    if text is not None and text not in known:
        raise Problem(400, "no-such-verdict", "There is no such verdict", f"verdict is one of: {', '.join(known)}")
    return text


def check_place(work: BaseModel, path: str) -> None:
    """A database inside this one would be taken for a part of it, and deleted with it."""
    if not isinstance(work, CloneOperation | CopyOperation):
        return
    target, own = work.target.strip("/"), path.strip("/")
    inside = target.startswith(f"{own}/") if own else target.split("/")[0] in FOLDERS
    if not target or inside:
        detail = f"{work.target!r} is in the database at {path!r} itself; choose a path beside it"
        raise Problem(422, "invalid-document", "The document is wrong", detail)
