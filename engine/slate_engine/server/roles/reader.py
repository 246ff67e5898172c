"""A reader: the same protocol, without writes. Any number of them follow one writer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiohttp import web
from prometheus_client import Gauge

from slate_engine.api.choices import ReaderMode
from slate_engine.api.options import ReaderOptions
from slate_engine.api.reader import DbReader
from slate_engine.api.reader_builder import DbReaderBuilder
from slate_engine.errors import CloseReason
from slate_engine.server.roles.resp_door import RespDoor
from slate_engine.server.roles.role import Surroundings, facts_of
from slate_engine.store.scrubbing import scrubbed

log = logging.getLogger(__name__)

MEMTABLE_BYTES = 64 << 20
LOOK_EVERY = 0.2


class ReaderRole:
    """Shows the newest state, late by at most the poll interval and the time of a poll; or one checkpoint for ever."""

    name = "the reader"

    def __init__(self, surroundings: Surroundings) -> None:
        self._surroundings = surroundings
        self._reader: DbReader | None = None
        surroundings.health.checks.append(self._why_not)
        Gauge(
            "slate_reader_staleness_seconds",
            "How long ago what the reader shows was known to be the newest",
            registry=surroundings.registry,
        ).set_function(lambda: self._staleness() or 0.0)
        self._door: RespDoor | None = None

    async def start(self) -> None:
        surroundings = self._surroundings
        config = surroundings.config
        builder = surroundings.files_builder(DbReaderBuilder)
        builder.with_options(
            ReaderOptions(
                manifest_poll_interval_ms=int(config.reader.poll_seconds * 1000),
                checkpoint_lifetime_ms=int(config.reader.checkpoint_seconds * 1000),
                max_memtable_bytes=MEMTABLE_BYTES,
                skip_wal_replay=False,
            )
        )
        if config.reader.checkpoint:
            builder.with_reader_mode(ReaderMode.CHECKPOINT(config.reader.checkpoint))
        self._reader = await builder.build()
        self._door = RespDoor(surroundings, self._reader, status=self._facts)
        await self._door.open()

    async def ended(self) -> None:
        assert self._reader is not None
        while (end := self._reader.closed()) is None:
            await self._surroundings.runtime.sleep(LOOK_EVERY)
        if end.reason is not CloseReason.CLEAN:
            raise end

    async def drain(self, seconds: float) -> None:
        if self._door is not None:
            await self._door.close(seconds / 2)
        if self._reader is not None:
            await asyncio.wait_for(self._reader.shutdown(), seconds / 2)

    # --- what it says of itself ----------------------------------------------------------------------------------

    def _staleness(self) -> float | None:
        return None if self._reader is None else self._reader.vitals().staleness_seconds

    def _why_not(self) -> str | None:
        """Old data is better than none, and stays visible; but a load balancer should know of it. Where a file of the log
        is missing, reads are refused."""
        if self._reader is None:
            return None
        vitals, config = self._reader.vitals(), self._surroundings.config.reader
        trouble, staleness = vitals.trouble, vitals.staleness_seconds
        if vitals.refuses_reads:
            return f"it refuses reads, because it cannot follow the log: {scrubbed(trouble or '')}"
        if staleness is None or staleness <= config.stale_polls * config.poll_seconds:
            return None
        why = "" if trouble is None else f": {scrubbed(trouble)}"
        return f"it shows a state that was the newest {staleness:.0f} s ago{why}"

    def _facts(self) -> Mapping[str, Any]:
        return {} if self._reader is None else facts_of(self._reader.vitals())

    def status(self) -> Mapping[str, Any]:
        return {"role": "reader", "path": self._surroundings.config.path, **self._facts()}

    def add_routes(self, application: web.Application) -> None:
        """A reader has none beyond those of every service."""
