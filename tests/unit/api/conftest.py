"""One scenario, two implementations: what a program can observe of ours must be what it observes of the original.

A test that takes the fixture ``kit`` runs once with each. The kit holds the module under test as ``kit.lib`` and the few
steps that every scenario needs.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any

import pytest

BOTH = ["slatedb.uniffi", "slate_engine"]


class Kit:
    """The steps of scenarios, in terms of one implementation."""

    def __init__(self, module: str) -> None:
        self.lib: Any = importlib.import_module(module)
        self.is_ours = module == "slate_engine"
        self.everything = self.between(None, None)

    def memory(self) -> Any:
        return self.lib.ObjectStore.resolve("memory:///")

    def between(self, start: bytes | None, end: bytes | None, *, after: bool = False, through: bool = False) -> Any:
        """``[start, end)``, or without its start (``after``), or with its end (``through``)."""
        return self.lib.KeyRange(start=start, start_inclusive=not after, end=end, end_inclusive=through)

    def settings(self, **changes: Any) -> Any:
        # Neither compaction nor garbage collection shall change anything under a scenario.
        settings = self.lib.Settings.default()
        for key, value in {"compactor_options": None, "garbage_collector_options": None, **changes}.items():
            settings.set(key, json.dumps(value))
        return settings

    @asynccontextmanager
    async def db(self, store: Any = None, path: str = "db", **options: Any) -> AsyncIterator[Any]:
        """A database, with builder options by the names of their ``with_`` methods."""
        builder = self.lib.DbBuilder(path, self.memory() if store is None else store)
        builder.with_settings(options.pop("settings", None) or self.settings())
        for name, value in options.items():
            getattr(builder, f"with_{name}")(value)
        db = await builder.build()
        try:
            yield db
        finally:
            if db.status().close_reason is None:
                await db.shutdown()

    @asynccontextmanager
    async def reader(self, store: Any, path: str = "db", **options: Any) -> AsyncIterator[Any]:
        builder = self.lib.DbReaderBuilder(path, store)
        for name, value in options.items():
            getattr(builder, f"with_{name}")(value)
        reader = await builder.build()
        try:
            yield reader
        finally:
            await reader.shutdown()

    def reader_options(self, **changes: Any) -> Any:
        defaults = {
            "manifest_poll_interval_ms": 50,
            "checkpoint_lifetime_ms": 1000,
            "max_memtable_bytes": 1 << 20,
            "skip_wal_replay": False,
        }
        return self.lib.ReaderOptions(**{**defaults, **changes})

    def read_options(self, *, durable: bool = False, cache_blocks: bool = True) -> Any:
        level = self.lib.DurabilityLevel
        return self.lib.ReadOptions(
            durability_filter=level.REMOTE if durable else level.MEMORY, dirty=False, cache_blocks=cache_blocks
        )

    def scan_options(self, *, descending: bool = False, durable: bool = False, read_ahead_bytes: int = 1) -> Any:
        level, order = self.lib.DurabilityLevel, self.lib.IterationOrder
        return self.lib.ScanOptions(
            durability_filter=level.REMOTE if durable else level.MEMORY,
            dirty=False,
            read_ahead_bytes=read_ahead_bytes,
            cache_blocks=False,
            max_fetch_tasks=2,
            order=order.DESCENDING if descending else order.ASCENDING,
        )

    def living(self, **ttl: int) -> Any:
        """Put options: ``after=ms``, ``at=ms``, or for ever."""
        kinds = {"after": self.lib.Ttl.EXPIRE_AFTER_MILLIS, "at": self.lib.Ttl.EXPIRE_AT_MILLIS}
        made = [kinds[kind](value) for kind, value in ttl.items()] or [self.lib.Ttl.NO_EXPIRY()]
        return self.lib.PutOptions(ttl=made[0])

    def joining(self) -> Any:
        """A merge operator that joins values, so that the order of operands shows."""

        class Join(self.lib.MergeOperator):  # type: ignore[misc]
            def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
                return (existing_value or b"") + operand

        return Join()

    async def flush_memtable(self, db: Any) -> None:
        await db.flush_with_options(self.lib.FlushOptions(flush_type=self.lib.FlushType.MEM_TABLE))

    async def rows(self, source: Any, range: Any = None, options: Any = None) -> list[tuple[bytes, bytes]]:
        """All that a scan gives."""
        wanted = range or self.everything
        scan = source.scan(wanted) if options is None else source.scan_with_options(wanted, options)
        return await drained(await scan)

    async def failure(self, action: Awaitable[Any]) -> tuple[str, str, Any]:
        """The class of the error that ``action`` raises, its message, and why a handle was closed."""
        with pytest.raises(self.lib.Error) as caught:
            await action
        kinds = ("Transaction", "Closed", "Unavailable", "Invalid", "Data", "Internal")
        kind = next(name for name in kinds if isinstance(caught.value, getattr(self.lib.Error, name)))
        reason = getattr(caught.value, "reason", None)
        return kind, caught.value.message, None if reason is None else reason.name


async def drained(iterator: Any) -> list[tuple[bytes, bytes]]:
    found = []
    while (row := await iterator.next()) is not None:
        found.append((row.key, row.value))
    return found


@pytest.fixture(params=BOTH)
def kit(request: pytest.FixtureRequest) -> Kit:
    """Both implementations, one after the other."""
    return Kit(request.param)


@pytest.fixture
def ours() -> Kit:
    return Kit("slate_engine")


@pytest.fixture
def original() -> Kit:
    return Kit("slatedb.uniffi")
