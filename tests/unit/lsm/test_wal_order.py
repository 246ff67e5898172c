"""The log of a writer: what it acknowledges, and in which order; and that it does not die in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from slate_engine.errors import ClosedError, CloseReason, Fenced
from slate_engine.lsm.commit import Change
from slate_engine.lsm.committed import Commit
from slate_engine.lsm.live_database import LiveDatabase
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.wal_writer import INLINE_BYTES, INLINE_ROWS, WalWriter
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import CREATE, OVERWRITE, Buffer, PutMode

RUNTIME = SystemRuntime()
OPTIONS = WriterOptions(max_parallel_writes=4, flush_interval=0.001, manifest_poll_interval=3600)


class HeldUp(MemoryStore):
    """Stores WAL files only when they are let through."""

    def __init__(self) -> None:
        super().__init__(RUNTIME)
        self.held: dict[int, asyncio.Event] = {}

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        for id, gate in self.held.items():
            if key.endswith(f"/wal/{id:020d}.sst"):
                await gate.wait()
        return await super().put(key, data, mode)


async def waiting(writer: Writer, count: int) -> list[asyncio.Task[None]]:
    """So many commits, each in a file of its own, and somebody who waits for each of them."""
    waiters = []
    for number in range(count):
        commit: Commit = await writer.write([Change(b"%d" % number, b"")])
        waiters.append(asyncio.ensure_future(commit.durable()))
        await asyncio.sleep(0.02)
    return waiters


async def opened() -> tuple[HeldUp, Writer, list[asyncio.Task[None]]]:
    """Three files are written at once, and the first one takes its time."""
    store = HeldUp()
    writer = await Writer.open(DatabaseFiles(store, "db", RUNTIME), OPTIONS)
    first = writer.last_wal_id + 1
    store.held[first] = asyncio.Event()
    waiters = await waiting(writer, 3)
    names = [meta.key async for page in store.list("db/wal/") for meta in page]
    assert f"db/wal/{first + 2:020d}.sst" in names, "they are not written side by side"
    return store, writer, waiters


async def test_a_row_is_durable_when_all_before_it_are() -> None:
    store, writer, waiters = await opened()
    flush = asyncio.ensure_future(writer.flush_wal())
    await asyncio.sleep(0.05)
    assert not any(waiter.done() for waiter in waiters), "the original would not find what is behind a gap"
    assert not flush.done()
    assert writer.durable_seq == 0
    for gate in store.held.values():
        gate.set()
    await asyncio.wait_for(asyncio.gather(*waiters, flush), 5)
    assert writer.durable_seq == 3
    await writer.close()


async def test_who_waits_behind_a_gap_is_told_of_the_end() -> None:
    store, writer, waiters = await opened()
    (id,) = store.held
    await MemoryStore.put(store, f"db/wal/{id:020d}.sst", b"", CREATE)  # another writer's fence
    store.held[id].set()
    told = await asyncio.wait_for(asyncio.gather(*waiters, return_exceptions=True), 5)
    assert [type(error) for error in told] == [Fenced] * 3
    assert writer.durable_seq == 0


class CountingRuntime(SystemRuntime):
    """Notes what threads are asked to do."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: list[str] = []

    async def run(self, work: Callable[..., Any], *args: object) -> Any:
        self.handed.append(getattr(work, "__name__", ""))
        return await super().run(work, *args)


@pytest.mark.parametrize(
    ("rows", "size", "beside"),
    [(3, 10, 0), (INLINE_ROWS, 0, 1), (1, INLINE_BYTES, 1), (4, INLINE_BYTES // 4, 1), (4, INLINE_BYTES // 5, 0)],
)
async def test_much_is_encoded_beside_the_event_loop(rows: int, size: int, beside: int) -> None:
    runtime = CountingRuntime()
    writer = await Writer.open(DatabaseFiles(MemoryStore(runtime), "db", runtime), OPTIONS)
    commit = await writer.write([Change(b"%d" % number, bytes(size)) for number in range(rows)])
    await asyncio.wait_for(commit.durable(), 5)
    assert runtime.handed.count("_encode") == beside
    await writer.close()


@pytest.mark.parametrize(
    ("place", "name"),
    [(WalWriter, "_until_in_window"), (LiveDatabase, "refresh")],
    ids=["writing the log", "following the manifest"],
)
async def test_a_defect_ends_the_writer_and_is_told(place: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    options = WriterOptions(flush_interval=0.001, manifest_poll_interval=0.05)
    writer = await Writer.open(DatabaseFiles(MemoryStore(RUNTIME), "db", RUNTIME), options)

    async def broken(self: Any) -> None:
        raise ZeroDivisionError("planted")

    monkeypatch.setattr(place, name, broken)
    commit = await writer.write([Change(b"a", b"")])
    if place is WalWriter:
        with pytest.raises(ClosedError, match="planted") as told:
            await asyncio.wait_for(commit.durable(), 5)
        assert told.value.reason is CloseReason.PANIC
    await asyncio.wait_for(writer.until(lambda: writer.error is not None), 5)
    assert writer.error is not None
    assert writer.error.reason is CloseReason.PANIC
    with pytest.raises(ClosedError, match="planted"):
        await writer.write([Change(b"b", b"")])
