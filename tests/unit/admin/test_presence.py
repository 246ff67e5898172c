"""Whether a process tells a database that lives from one that was deleted while the process stood still, where no boundary
says so: collectors of SlateDB keep none on local files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from slate_engine.admin.checkpoints import create_checkpoint
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.destroying import destroy_hard
from slate_engine.errors import DatabaseDeleted
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, ObjectMeta, PutMode
from slate_engine.store.two_phase import TwoPhaseStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.store.two_phase.doubles import MemoryTransactions
from tests.unit.gc.stalling import StallingStore

NO_BOUNDARIES = GcOptions(boundary_files=False)
POLL = 10.0
LONG = 400.0
"""Seconds after which collectors delete what is not needed."""


async def put(writer: Writer, key: bytes) -> None:
    await (await writer.write([Change(key, b"value")])).durable()


async def manifest_ids(files: DatabaseFiles) -> list[int]:
    return [entry.id for entry in await files.manifests.objects.list()]


async def a_clone_without_objects_of_its_own(runtime: SimulatedRuntime, bucket: MemoryStore) -> None:
    writer = await Writer.open(DatabaseFiles(bucket, "parent", runtime), WriterOptions())
    await put(writer, b"a")
    await writer.flush_memtable()
    await writer.close()
    await create_clone(DatabaseFiles(bucket, "clone", runtime), [CloneSource("parent")])
    await runtime.sleep(LONG)


def test_a_clone_that_is_only_read_stays_alive_for_its_readers() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)
        await a_clone_without_objects_of_its_own(runtime, bucket)

        def files() -> DatabaseFiles:
            return DatabaseFiles(bucket, "clone", runtime)

        reader = await Reader.latest(files(), ReaderOptions(poll_interval=POLL))
        await runtime.sleep(LONG)
        other = await Reader.managed(files(), ReaderOptions(poll_interval=POLL))
        before = await manifest_ids(files())
        await collect_once(files(), NO_BOUNDARIES)
        assert await manifest_ids(files()) == before[-1:]
        await runtime.sleep(3 * POLL)
        row = await reader.snapshot().get(b"a")
        assert row is not None
        assert row.value == b"value"
        await reader.close()
        await other.close()

    simulate(scenario, 1)


def test_a_database_whose_log_is_elsewhere_stays_alive_for_its_processes() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket, logs = MemoryStore(runtime), MemoryStore(runtime, name="logs")

        def files() -> DatabaseFiles:
            return DatabaseFiles(bucket, "db", runtime, wal_store=logs)

        writer = await Writer.open(files(), WriterOptions())
        await put(writer, b"a")
        reader = await Reader.latest(files(), ReaderOptions(poll_interval=POLL))
        await runtime.sleep(LONG)
        other = await Reader.managed(files(), ReaderOptions(poll_interval=POLL))
        before = await manifest_ids(files())
        await collect_once(files(), NO_BOUNDARIES)
        assert await manifest_ids(files()) == before[-1:]
        await runtime.sleep(3 * POLL)
        assert await reader.snapshot().get(b"a") is not None
        await put(writer, b"b")
        for each in (reader, other, writer):
            await each.close()

    simulate(scenario, 1)


def test_a_commit_is_not_taken_back_when_a_collector_deletes_what_it_replaces() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)
        await a_clone_without_objects_of_its_own(runtime, bucket)
        files = DatabaseFiles(bucket, "clone", runtime)

        class Collected(StallingStore):
            async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
                etag = await bucket.put(key, data, mode)
                await collect_once(DatabaseFiles(bucket, "clone", runtime), NO_BOUNDARIES)
                return etag

        made = await create_checkpoint(DatabaseFiles(Collected(bucket), "clone", runtime))
        assert await manifest_ids(files) == [made.manifest_id]
        assert [each.id for each in (await files.manifests.read_latest()).value.checkpoints] == [made.id]

    simulate(scenario, 1)


def test_a_commit_that_arrives_after_the_deletion_of_a_clone_is_taken_back() -> None:
    """Nothing but its manifests was ever there."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)
        await a_clone_without_objects_of_its_own(runtime, bucket)
        slow = StallingStore(bucket)
        slow.stall(lambda key: "manifest" in key)
        making = asyncio.ensure_future(create_checkpoint(DatabaseFiles(slow, "clone", runtime)))
        await slow.stalled.wait()
        await destroy_hard(DatabaseFiles(bucket, "clone", runtime))
        slow.go_on()
        with pytest.raises(DatabaseDeleted):
            await making
        assert [meta.key async for page in bucket.list("clone/") for meta in page] == []

    simulate(scenario, 1)


class Sleeper:
    """The runtime and the store of a process that stands still from time to time. While the machine is ``suspended``, its
    monotonic clock stands still, too."""

    url = "memory:///"

    def __init__(self, runtime: SimulatedRuntime, bucket: MemoryStore, *, suspended: bool) -> None:
        self._runtime, self._bucket, self._suspended = runtime, bucket, suspended
        self._slept = self._began = 0.0
        self._awake = asyncio.Event()
        self._awake.set()

    def fall_asleep(self) -> None:
        self._awake.clear()
        self._began = self._runtime.monotonic()

    def wake_up(self) -> None:
        if self._suspended:
            self._slept += self._runtime.monotonic() - self._began
        self._awake.set()

    def monotonic(self) -> float:
        return self._runtime.monotonic() - self._slept

    async def sleep(self, seconds: float) -> None:
        await self._runtime.sleep(seconds)
        await self._awake.wait()

    def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        return self._bucket.list(prefix, start_after=start_after)

    def __getattr__(self, name: str) -> Any:
        if name not in ("get", "get_ranges", "head", "put", "put_stream", "copy", "delete"):
            return getattr(self._runtime, name)

        async def request(*arguments: Any, **named: Any) -> Any:
            await self._awake.wait()
            return await getattr(self._bucket, name)(*arguments, **named)

        return request


@pytest.mark.parametrize("suspended", [False, True])
@pytest.mark.parametrize("first", ["equal", "different"])
def test_a_writer_that_slept_does_not_write_into_the_next_database(first: str, suspended: bool) -> None:
    """The first manifests of two databases have the same bytes, unless something was flushed."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)
        process: Any = Sleeper(runtime, bucket, suspended=suspended)
        old = await Writer.open(DatabaseFiles(process, "db", process), WriterOptions())
        if first == "different":
            await put(old, b"flushed")
            await old.flush_memtable()
        for number in range(8):
            await put(old, b"old%d" % number)
        await runtime.sleep(5)
        process.fall_asleep()
        await destroy_hard(DatabaseFiles(bucket, "db", runtime))
        await runtime.sleep(100)
        new = await Writer.open(
            DatabaseFiles(bucket, "db", runtime), replace(WriterOptions(), manifest_poll_interval=1.0)
        )
        for number in range(3):
            await put(new, b"new%d" % number)
            await new.flush_memtable()
            await runtime.sleep(30)
        process.wake_up()
        with pytest.raises(DatabaseDeleted):
            await put(old, b"late")
        for number in range(12):
            await put(new, b"more%d" % number)
        assert await new.snapshot().get(b"late") is None
        await new.close()

    simulate(scenario, 1)


def test_a_reader_that_looks_rarely_knows_a_database_by_its_newer_manifests() -> None:
    """Between two looks a compaction has replaced all that was there, and a collector has deleted it."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)

        def files() -> DatabaseFiles:
            return DatabaseFiles(bucket, "db", runtime)

        writer = await Writer.open(files(), WriterOptions())
        await put(writer, b"a")
        await writer.flush_memtable()
        await writer.close()
        await runtime.sleep(LONG)
        reader = await Reader.latest(files(), ReaderOptions(poll_interval=POLL))
        await runtime.sleep(POLL / 2)
        # Fences of the log are old, too: SlateDB can collect them.
        old = [meta.key async for page in bucket.list("db/") for meta in page]
        writer = await Writer.open(files(), WriterOptions())
        await put(writer, b"b")
        await writer.flush_memtable()
        await bucket.delete(old)
        await runtime.sleep(2 * POLL)
        assert await reader.snapshot().get(b"b") is not None
        await reader.close()
        await writer.close()

    simulate(scenario, 1)


def test_a_manifest_that_is_copied_to_its_place_again_is_the_same() -> None:
    """On a two-phase store others may finish a commit, at any time: then its time is not that of its creation."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)
        transactions = MemoryTransactions()

        def files() -> DatabaseFiles:
            return DatabaseFiles(TwoPhaseStore(bucket, transactions, runtime), "db", runtime)

        writer = await Writer.open(files(), WriterOptions())
        reader = files()
        first = await reader.manifests.read_latest()
        await runtime.sleep(LONG)
        for key in [meta.key async for page in bucket.list("db/") for meta in page]:
            await bucket.put(key, (await bucket.get(key)).data, OVERWRITE)
        assert (await reader.manifests.read_latest()).id == first.id
        await put(writer, b"a")
        await writer.flush_memtable()
        assert (await reader.manifests.read_latest()).id > first.id
        await writer.close()

    simulate(scenario, 1)
