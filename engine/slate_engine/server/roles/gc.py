"""The garbage collector, and the admin API with it: the process of a database that lives longest."""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from aiohttp import web
from prometheus_client import Counter as PrometheusCounter
from prometheus_client import Gauge

from slate_engine.admin.ownership import owner_of
from slate_engine.errors import Error, UnavailableError
from slate_engine.gc.loop import collect_all_forever, collect_forever
from slate_engine.gc.options import GcOptions, Task
from slate_engine.gc.report import Report
from slate_engine.server.admin.openapi import openapi
from slate_engine.server.admin.operations import Operations
from slate_engine.server.admin.routes import AdminApi
from slate_engine.server.admin.work import Workbench
from slate_engine.server.config import GcConfig
from slate_engine.server.roles.role import Surroundings
from slate_engine.state.commit import NothingStored
from slate_engine.store.scrubbing import scrubbed

log = logging.getLogger(__name__)

LOOK_FOR_OWNER = 2.0
"""How often a collector that waits to be owned looks, in seconds."""

FAILED_PASSES = 3
"""After so many in a row, whatever it is does not pass by itself."""


class GcRole:
    """Collects the garbage of one database, or of all under a prefix, and answers the admin API of the one."""

    name = "the garbage collector"

    def __init__(self, surroundings: Surroundings) -> None:
        config = surroundings.config
        self._surroundings = surroundings
        self._options = options_of(config.gc)
        self._files = surroundings.open_files(caretaker=True)
        workbench = Workbench(self._files, self._options)
        self._operations = Operations(self._files, workbench.carry)
        self._api = AdminApi(self._files, self._operations, self._options)
        self._loop: asyncio.Task[None] | None = None
        self._troubles: dict[str, tuple[Error, int]] = {}
        """By the database's path: what has gone wrong last, and in how many passes in a row something has."""
        self._collected: Counter[str] = Counter()
        self._numbers = _Numbers(surroundings)
        surroundings.health.checks.append(self._why_not)

    async def start(self) -> None:
        """Nothing of a database has to be there yet: it may be made later, through this very service."""
        try:
            await self._files.manifests.read_latest()
        except NothingStored:
            log.info("there is no database at %r yet", self._files.path)
        await self._operations.resume()
        self._loop = asyncio.ensure_future(self._collect())

    async def _collect(self) -> None:
        config, files = self._surroundings.config, self._files
        if config.gc.prefix:
            await collect_all_forever(
                files.store,
                self._surroundings.runtime,
                config.gc.prefix,
                self._options,
                self._observe,
                look_interval=config.gc.interval,
                wal_store=files.wal_store,
            )
        while True:
            await self._until_owned(config.gc.owner)
            # It ends when there is no database; one may be made at this place later.
            await collect_forever(files, self._options, self._observe)
            await self._surroundings.runtime.sleep(min(config.gc.interval, 10.0))

    async def _until_owned(self, uid: str) -> None:
        """The grace period of a destroyed database is its owner's: another collector, told of a shorter one, would delete
        what can still be brought back."""
        while uid:
            try:
                owner = await owner_of(self._files)
                if owner is not None and owner.uid == uid and not owner.released:
                    return
                self._note(self._files.path, None)
            except Error as trouble:
                self._note(self._files.path, trouble)
                log.warning("whose the database is cannot be told: %s", trouble)
            await self._surroundings.runtime.sleep(LOOK_FOR_OWNER)

    def _observe(self, report: Report) -> None:
        self._note(report.path, next(iter(report.errors), None))
        self._numbers.observe(report)
        for kind in report.kinds:
            if not kind.dry_run:
                self._collected[kind.kind.value] += len(kind.garbage)

    def _note(self, path: str, trouble: Error | None) -> None:
        _, passes = self._troubles.pop(path, (None, 0))
        if trouble is not None:
            self._troubles[path] = trouble, passes + 1

    def _why_not(self) -> str | None:
        for path, (trouble, passes) in self._troubles.items():
            if isinstance(trouble, UnavailableError):
                return f"the store does not answer: {scrubbed(trouble.message)}"
            if passes >= FAILED_PASSES:
                return f"the last {passes} passes over {path!r} have failed: {scrubbed(trouble.message)}"
        return None

    async def ended(self) -> None:
        assert self._loop is not None
        await self._loop

    async def drain(self, seconds: float) -> None:
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await self._operations.close()

    def status(self) -> Mapping[str, Any]:
        trouble = next((scrubbed(trouble.message) for trouble, _ in self._troubles.values()), None)
        return {"role": "gc", "path": self._files.path, "collected": dict(self._collected), "trouble": trouble}

    def add_routes(self, application: web.Application) -> None:
        self._api.add_to(application)
        document = openapi(self._api.routes, version("slatekeeper"))

        async def show(request: web.Request) -> web.Response:
            return web.json_response(document)

        application.router.add_get("/openapi.json", show)


class _Numbers:
    def __init__(self, surroundings: Surroundings) -> None:
        registry = surroundings.registry
        self._objects = PrometheusCounter(
            "slate_gc_collected_objects", "Objects and entries that were collected", ("kind",), registry=registry
        )
        self._bytes = PrometheusCounter(
            "slate_gc_collected_bytes", "Bytes that were freed", ("kind",), registry=registry
        )
        self._failures = PrometheusCounter("slate_gc_failed_passes", "Passes with an error", registry=registry)
        self._last = Gauge("slate_gc_last_pass_time_seconds", "When the last good pass ended", registry=registry)
        self._runtime = surroundings.runtime

    def observe(self, report: Report) -> None:
        for kind in report.kinds:
            if not kind.dry_run:
                self._objects.labels(kind.kind.value).inc(len(kind.garbage))
                self._bytes.labels(kind.kind.value).inc(kind.size)
        if report.errors:
            self._failures.inc()
        else:
            self._last.set(self._runtime.now_ms() / 1000)


def options_of(config: GcConfig) -> GcOptions:
    """Every kind at the same interval and age, but those for which another age is right."""
    common = Task(interval=config.interval, min_age=config.min_age)
    # Without an end of the grace, what somebody else began to delete for good is still finished.
    grace = math.inf if config.delete_grace is None else config.delete_grace
    return GcOptions(
        destroyed=Task(interval=config.interval, min_age=grace),
        checkpoints=common,
        manifests=common,
        wal=common,
        fences=Task(interval=config.interval, min_age=config.min_age, dry_run=True),
        compacted=common,
        compactions=common,
        detach=common,
    )
