"""Loaded once by the process that all workers are forked from: runs the engine for a moment, so that its kernels are there.

On virtual time, because a thread would not survive the fork.
"""

from __future__ import annotations

from slate_engine.format.columns import MERGE
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.store.memory import MemoryStore
from tests.interop.concurrency.book import Join
from tests.interop.concurrency.engines import rows_of
from tests.simulation.loop import SimulatedRuntime, simulate


async def _a_little_of_everything(runtime: SimulatedRuntime) -> None:
    store = MemoryStore(runtime)
    for _ in range(2):
        writer = await Writer.open(DatabaseFiles(store, "db", runtime), WriterOptions(operator=Join()))
        await (await writer.write([Change(b"a", b"1"), Change(b"b", b"2", MERGE)])).durable()
        await writer.flush_memtable()
        await (await writer.write([Change(b"b", b"3", MERGE)])).durable()
        await rows_of(writer.snapshot())
        await writer.close()


simulate(_a_little_of_everything, 1)
