"""A store that refuses: an error for whoever opens a database, and a trouble that may pass for whoever writes it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

import slate_engine
from slate_engine.errors import CloseReason, InvalidError
from slate_engine.lsm.commit import Change
from slate_engine.lsm.outage import DENIED_PATIENCE
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.visible import MAX_SEQ
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.state.destroy import LINGER
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Denied, Object, PutMode
from tests.simulation.loop import SimulatedRuntime, simulate


class Guarded(MemoryStore):
    """Refuses to write, or to read, where a name has this in it."""

    no_writing: str | None = None
    no_reading: str | None = None

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if self.no_writing is not None and self.no_writing in key:
            raise Denied(f"put of {key!r} was denied: 400 ExpiredToken; check the credentials")
        return await super().put(key, data, mode)

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        if self.no_reading is not None and self.no_reading in key:
            raise Denied(f"get of {key!r} was denied: 400 ExpiredToken; check the credentials")
        return await super().get(key, if_none_match=if_none_match)


def run(scenario: Callable[[SimulatedRuntime, Guarded], Awaitable[Any]]) -> None:
    async def inside(runtime: SimulatedRuntime) -> None:
        await scenario(runtime, Guarded(runtime))

    simulate(inside, 1)


async def opened(runtime: SimulatedRuntime, store: Guarded) -> Writer:
    return await Writer.open(DatabaseFiles(store, "db", runtime), WriterOptions(manifest_poll_interval=5.0))


@pytest.mark.parametrize("where", ["/wal/", "/compacted/"])
def test_credentials_that_are_renewed_cost_nothing(where: str) -> None:
    async def scenario(runtime: SimulatedRuntime, store: Guarded) -> None:
        writer = await opened(runtime, store)
        await (await writer.write([Change(b"a", b"1")])).durable()
        store.no_writing = where
        await writer.write([Change(b"b", b"1")])
        flushed = asyncio.ensure_future(writer.flush_memtable())
        await runtime.sleep(DENIED_PATIENCE - 60)
        assert writer.error is None
        assert writer.trouble is not None
        assert "ExpiredToken" in writer.trouble.message
        assert not flushed.done()
        store.no_writing = None
        await runtime.sleep(10)
        await flushed
        assert writer.trouble is None
        # What was is forgotten: the next time there is as much patience.
        store.no_writing = where
        await writer.write([Change(b"c", b"1")])
        flushed = asyncio.ensure_future(writer.flush_memtable())
        await runtime.sleep(DENIED_PATIENCE - 60)
        store.no_writing = None
        await flushed
        await writer.close()

    run(scenario)


def test_a_manifest_that_cannot_be_read_for_a_while_is_followed_again() -> None:
    async def scenario(runtime: SimulatedRuntime, store: Guarded) -> None:
        writer = await opened(runtime, store)
        store.no_reading = "/manifest/"
        await runtime.sleep(DENIED_PATIENCE / 2)
        assert writer.error is None
        store.no_reading = None
        await runtime.sleep(30)
        await writer.close()

    run(scenario)


def test_patience_ends() -> None:
    async def scenario(runtime: SimulatedRuntime, store: Guarded) -> None:
        writer = await opened(runtime, store)
        store.no_writing = "/wal/"
        commit = await writer.write([Change(b"b", b"1")])
        with pytest.raises(slate_engine.Error.Closed, match="check the credentials"):
            await commit.durable()
        assert writer.error is not None
        assert writer.error.reason is CloseReason.UNKNOWN

    run(scenario)


def test_a_store_that_cannot_be_written_is_told_at_once_when_a_database_is_opened() -> None:
    async def scenario(runtime: SimulatedRuntime, store: Guarded) -> None:
        await (await opened(runtime, store)).close()
        store.no_writing = ""
        before = runtime.monotonic()
        with pytest.raises(Denied, match="check the credentials"):
            await opened(runtime, store)
        assert runtime.monotonic() - before < 1

    run(scenario)


async def test_a_read_only_store_is_a_clear_error_of_the_package() -> None:
    store = Guarded(SystemRuntime())
    store.no_writing = ""
    builder = slate_engine.DbBuilder("db", slate_engine.ObjectStore.of(store, SystemRuntime()))
    with pytest.raises(slate_engine.Error.Invalid, match=r"db/.* was denied.*check the credentials"):
        await builder.build()


def test_the_last_sequence_number_is_not_given_out() -> None:
    async def scenario(runtime: SimulatedRuntime, store: Guarded) -> None:
        writer = await opened(runtime, store)
        with pytest.raises(InvalidError, match="give a smaller one"):
            await writer.write([Change(b"a", b"1")], seq=MAX_SEQ)
        await writer.write([Change(b"a", b"2")], seq=MAX_SEQ - 1)
        with pytest.raises(InvalidError, match="nothing could be written after it"):
            await writer.write([Change(b"a", b"3")])
        assert (await writer.snapshot().get(b"a")).value == b"2"  # type: ignore[union-attr]
        await writer.close()

    run(scenario)


class Slow(MemoryStore):
    """Answers each request for a manifest after so many seconds."""

    delay = 0.0

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        if "manifest" in key:
            await asyncio.sleep(self.delay)
        return await super().get(key, if_none_match=if_none_match)


def test_a_store_that_is_too_slow_to_prove_a_writer_current_is_a_trouble_until_it_is_faster() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = Slow(runtime)
        options = WriterOptions(manifest_poll_interval=1e6)
        writer = await Writer.open(DatabaseFiles(store, "db", runtime), options)
        await runtime.sleep(10)
        store.delay = LINGER
        written = await writer.write([Change(b"a", b"1")])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(written.durable(), 60)
        assert writer.trouble is not None
        assert "look at the manifest" in writer.trouble.message
        store.delay = 0.0
        await asyncio.wait_for(written.durable(), 60)
        assert writer.trouble is None
        await writer.close()

    simulate(scenario, 1)
