"""Whoever writes in a loop leaves the others their turns."""

from __future__ import annotations

from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import TURN_BYTES, Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate


def test_the_log_is_written_while_somebody_writes_in_a_loop() -> None:
    async def scene(runtime: SimulatedRuntime) -> None:
        files = DatabaseFiles(MemoryStore(runtime), "db", runtime)
        writer = await Writer.open(files, WriterOptions(flush_interval=0.0))
        for number in range(40):
            await writer.write([Change(b"%d" % number, b"v" * (TURN_BYTES // 4))])
        assert writer.last_wal_id >= 5, "nobody else had a turn"
        assert writer.durable_seq >= 20
        await writer.close()

    simulate(scene, 1)
