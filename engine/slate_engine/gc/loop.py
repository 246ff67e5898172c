"""Collecting for as long as a process lives: one database, or all that a store holds (RFC-0004's single collector)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable

from slate_engine.admin.parents import neighbour
from slate_engine.errors import Error, InvalidError
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.discovery import find_databases
from slate_engine.gc.options import GcOptions, Kind
from slate_engine.gc.report import Report
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import ObjectStore

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Passes over different databases at the same time."""

Observer = Callable[[Report], None]


async def collect_forever(
    files: DatabaseFiles,
    options: GcOptions | None = None,
    observe: Observer = lambda report: None,
    slots: asyncio.Semaphore | None = None,
) -> None:
    """Collect each kind at its interval, until the database is gone or the task is cancelled."""
    options = options or GcOptions()
    # Afresh: there may have been another database at this place, whose boundaries count no more.
    collector = Collector(neighbour(files, files.path), options)
    runtime = files.runtime
    slots = slots or asyncio.Semaphore(1)
    intervals = {kind: task.interval for kind in Kind if (task := options.task(kind)) is not None}
    if not intervals:
        raise InvalidError("a collector that is to collect no kind of garbage has nothing to do; switch some on")
    due = dict.fromkeys(intervals, runtime.monotonic())
    loop = Loop(f"collecting the garbage of {files.path!r}", runtime)
    with loop.running():
        while True:
            now = runtime.monotonic()
            kinds = {kind for kind, at in due.items() if at <= now}
            await loop.rest(slots.acquire())
            try:
                report = await collector.collect(kinds)
            except Error as trouble:
                log.warning("no garbage of %r was collected this time: %s", files.path, trouble)
                report = Report(files.path, trouble=trouble)
            finally:
                slots.release()
            observe(report)
            if report.gone:
                log.info("there is no database at %r any more; its collector ends", files.path)
                return
            due |= {kind: now + intervals[kind] for kind in kinds}
            await loop.sleep(max(0.0, min(due.values()) - runtime.monotonic()))


async def collect_all(
    store: ObjectStore,
    runtime: Runtime,
    prefix: str = "",
    options: GcOptions | None = None,
    *,
    wal_store: ObjectStore | None = None,
) -> AsyncIterator[Report]:
    """One pass over every database under ``prefix``, one after the other. Where nothing could be looked at, the report
    says so."""
    for path in await find_databases(store, prefix):
        try:
            yield await collect_once(DatabaseFiles(store, path, runtime, wal_store=wal_store), options)
        except Error as trouble:
            log.warning("no garbage of %r was collected: %s", path, trouble)
            yield Report(path, trouble=trouble)


async def collect_all_forever(
    store: ObjectStore,
    runtime: Runtime,
    prefix: str = "",
    options: GcOptions | None = None,
    observe: Observer = lambda report: None,
    *,
    look_interval: float = 600.0,
    wal_store: ObjectStore | None = None,
) -> None:
    """Collect for every database under ``prefix``, also for those that are made later: they are looked for at an
    interval."""
    slots = asyncio.Semaphore(AT_ONCE)
    tasks: dict[str, asyncio.Task[None]] = {}
    loop = Loop("looking for databases", runtime)
    try:
        with loop.running():
            while True:
                try:
                    paths = await find_databases(store, prefix)
                except Error as trouble:
                    log.warning("the databases under %r could not be looked for: %s", prefix, trouble)
                    paths = []
                for path in [path for path, task in tasks.items() if task.done()]:
                    if (defect := tasks.pop(path).exception()) is not None:
                        log.error("the collector of %r broke down, and starts again: %r", path, defect)
                for path in paths:
                    if path not in tasks:
                        files = DatabaseFiles(store, path, runtime, wal_store=wal_store)
                        tasks[path] = asyncio.ensure_future(collect_forever(files, options, observe, slots))
                await loop.sleep(look_interval)
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
