"""The writer: the database behind the Redis protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiohttp import web

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.enums import FlushType
from slate_engine.api.options import CheckpointOptions, CloseOptions, FlushOptions
from slate_engine.api.scopes import CheckpointScope
from slate_engine.errors import CloseReason
from slate_engine.server.roles.resp_door import RespDoor
from slate_engine.server.roles.role import Surroundings, facts_of
from slate_engine.server.settings import settings_of

log = logging.getLogger(__name__)

FLUSH_SHARE = 0.5
"""Of the time to drain: so much for the clients, the rest for the flush."""


class WriterRole:
    """Takes the database over when it starts: whoever wrote it before is fenced off, and ends."""

    name = "the writer"

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._db: Db | None = None
        self._door: RespDoor | None = None
        surroundings.health.checks.append(self._trouble)

    async def start(self) -> None:
        surroundings = self._surroundings
        builder = surroundings.files_builder(DbBuilder)
        builder.with_settings(settings_of(surroundings.config.settings))
        self._db = db = await builder.build()
        self._door = RespDoor(surroundings, db, status=self._facts)
        self._door.service.flush = self._flush
        self._door.service.checkpoint = self._checkpoint
        await self._door.open()

    async def ended(self) -> None:
        assert self._db is not None
        end = await self._db.ended()
        if end.reason is not CloseReason.CLEAN:
            raise end

    async def drain(self, seconds: float) -> None:
        if self._door is not None:
            await self._door.close(seconds * FLUSH_SHARE)
        if self._db is not None:
            await asyncio.wait_for(
                self._db.shutdown_with_options(CloseOptions(flush_type=FlushType.MEM_TABLE)), seconds * FLUSH_SHARE
            )

    # --- what it says of itself ----------------------------------------------------------------------------------

    def _trouble(self) -> str | None:
        if self._db is None:
            return None
        trouble = facts_of(self._db.vitals())["trouble"]
        return None if trouble is None else f"nothing becomes durable at the moment: {trouble}"

    def _facts(self) -> Mapping[str, Any]:
        return {} if self._db is None else facts_of(self._db.vitals())

    def status(self) -> Mapping[str, Any]:
        config = self._surroundings.config
        return {"role": "writer", "path": config.path, **self._facts()}

    def add_routes(self, application: web.Application) -> None:
        application.router.add_post("/v1/flush", self._post_flush)

    async def _post_flush(self, request: web.Request) -> web.Response:
        await self._flush(request.query.get("kind") == "memtable")
        return web.json_response({"durable_seq": self._open_db().vitals().durable_seq})

    # --- what it can be asked for --------------------------------------------------------------------------------

    def _open_db(self) -> Db:
        if self._db is None:
            raise web.HTTPServiceUnavailable(reason="the database is not open yet; ask again")
        return self._db

    async def _flush(self, memtable: bool) -> None:
        kind = FlushType.MEM_TABLE if memtable else FlushType.WAL
        await self._open_db().flush_with_options(FlushOptions(flush_type=kind))

    async def _checkpoint(self, name: str | None, lifetime_ms: int | None) -> tuple[str, int]:
        made = await self._open_db().create_checkpoint(
            CheckpointScope.All(force_flush=True), CheckpointOptions(lifetime_ms=lifetime_ms, source=None, name=name)
        )
        return made.id, made.manifest_id
