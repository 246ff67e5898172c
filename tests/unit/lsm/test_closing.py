"""A writer that closes without a flush while a file of its log is under way."""

from __future__ import annotations

import asyncio

import pytest

from slate_engine.errors import ClosedError
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.gc.stalling import StallingStore
from tests.unit.lsm.test_outage import Guarded


def test_a_file_under_way_is_waited_for_and_recorded() -> None:
    """So it is certain, when the writer has closed, which rows there are. A file that is not begun never is."""

    async def play(runtime: SimulatedRuntime) -> None:
        bucket = MemoryStore(runtime)
        store = StallingStore(bucket)
        files = DatabaseFiles(store, "db", runtime)
        writer = await Writer.open(files, WriterOptions())
        store.stall(lambda key: "/wal/" in key)
        commit = await writer.write([Change(b"under way", b"1")])
        durable = asyncio.ensure_future(commit.durable())
        await store.stalled.wait()
        late = await writer.write([Change(b"not begun", b"1")])
        waiting = asyncio.ensure_future(late.durable())
        closing = asyncio.ensure_future(writer.close(flush_wal=False))
        await runtime.sleep(5)
        assert not closing.done()
        store.go_on()
        await closing
        await durable
        with pytest.raises(ClosedError):
            await waiting
        manifest = await files.manifest()
        assert manifest.wal_id_last_seen == writer.last_wal_id
        snapshot = await files.at(manifest, manifest.wal_id_last_seen)
        assert [row[0] async for rows in snapshot.scan() for row in rows.tuples()] == [b"under way"]

    simulate(play, 0)


def test_a_file_that_does_not_arrive_is_not_waited_for_for_ever() -> None:
    async def play(runtime: SimulatedRuntime) -> None:
        store = StallingStore(MemoryStore(runtime))
        files = DatabaseFiles(store, "db", runtime)
        writer = await Writer.open(files, WriterOptions())
        await (await writer.write([Change(b"durable", b"1")])).durable()
        last = writer.last_wal_id
        store.stall(lambda key: "/wal/" in key)
        commit = await writer.write([Change(b"under way", b"1")])
        waiting = asyncio.ensure_future(commit.durable())
        await store.stalled.wait()
        await asyncio.wait_for(writer.close(flush_wal=False), 60)
        with pytest.raises(ClosedError):
            await waiting
        assert (await files.manifest()).wal_id_last_seen == last

    simulate(play, 0)


def test_a_store_that_refuses_the_file_is_not_waited_for() -> None:
    async def play(runtime: SimulatedRuntime) -> None:
        store = Guarded(runtime)
        files = DatabaseFiles(store, "db", runtime)
        writer = await Writer.open(files, WriterOptions())
        await (await writer.write([Change(b"durable", b"1")])).durable()
        last = writer.last_wal_id
        store.no_writing = "/wal/"
        commit = await writer.write([Change(b"refused", b"1")])
        waiting = asyncio.ensure_future(commit.durable())
        await runtime.sleep(5)
        assert writer.trouble is not None
        await asyncio.wait_for(writer.close(flush_wal=False), 60)
        with pytest.raises(ClosedError):
            await waiting
        assert (await files.manifest()).wal_id_last_seen == last

    simulate(play, 0)


def test_a_close_that_is_cancelled_while_it_waits_for_a_file_records_what_is_durable() -> None:
    async def play(runtime: SimulatedRuntime) -> None:
        store = StallingStore(MemoryStore(runtime))
        files = DatabaseFiles(store, "db", runtime)
        writer = await Writer.open(files, WriterOptions())
        await (await writer.write([Change(b"durable", b"1")])).durable()
        last = writer.last_wal_id
        store.stall(lambda key: "/wal/" in key)
        waiting = asyncio.ensure_future((await writer.write([Change(b"under way", b"1")])).durable())
        await store.stalled.wait()
        closing = asyncio.ensure_future(writer.close(flush_wal=False))
        await runtime.sleep(1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(ClosedError):
            await waiting
        assert (await files.manifest()).wal_id_last_seen == last

    simulate(play, 0)
