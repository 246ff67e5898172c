"""A writer takes the log of its predecessor over: whole commits, in memtables of the size that was asked for."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.errors import DataError
from slate_engine.format.columns import Rows
from slate_engine.format.sst_meta import Codec
from slate_engine.format.wal import FENCE, build_wal_sst
from slate_engine.lsm import writer as writer_module
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore

RUNTIME = SystemRuntime()
OPTIONS = WriterOptions(manifest_poll_interval=3600, l0_max_ssts=0)
"""Level 0 has no room, so what is frozen can be looked at."""


async def log_of(files: list[list[Row]]) -> DatabaseFiles:
    """A database that has these files in its log, and nothing else."""
    database = DatabaseFiles(MemoryStore(RUNTIME), "db", RUNTIME)
    writer = await Writer.open(database, OPTIONS)
    await writer.close()
    for id, rows in enumerate(files, writer.last_wal_id + 1):
        data = build_wal_sst(Rows.of(rows), Codec.NONE).tobytes() if rows else FENCE
        await database.store.put(database.paths.wal(id), data)
    return database


def commit(seq: int, rows: int) -> list[Row]:
    return [Row(b"%03d-%d" % (seq, i), b"x" * 10, seq, 4, 1000 + seq, 0) for i in range(rows)]


FILES = st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=4), max_size=6)


@settings(deadline=None, max_examples=50)
@given(FILES, st.integers(1, 200), st.booleans())
def test_memtables_end_where_a_commit_made_them_full(files: list[list[int]], size: int, torn: bool) -> None:
    commits = [commit(seq, rows) for seq, rows in enumerate((rows for file in files for rows in file), 1)]
    numbered = iter(commits)
    rows_of_files = [[row for _ in file for row in next(numbered)] for file in files]
    if torn and len(rows_of_files) > 1 and rows_of_files[1]:
        # Nobody writes that, but who reads must not make it worse: a commit whose rows are in two files.
        rows_of_files[0].append(rows_of_files[1].pop(0))
    expected: list[list[int]] = [[]]
    for each in commits:
        if sum(len(row.key) + len(row.value) for seq in expected[-1] for row in commits[seq - 1]) >= size:
            expected.append([])
        expected[-1].append(each[0].seq)

    async def found() -> list[list[int]]:
        writer = await Writer.open(await log_of(rows_of_files), replace(OPTIONS, l0_sst_size_bytes=size))
        state = writer.state
        tables = [*(frozen.memtable for frozen in reversed(state.frozen)), state.active]
        assert all(frozen.replay_after == 0 for frozen in state.frozen), "what is replayed is still needed"
        assert writer.last_seq == writer.durable_seq == len(commits)
        await writer.close()
        return [np.unique(table.rows().seq).tolist() for table in tables if len(table)]

    assert asyncio.run(found()) == [each for each in expected if each]


async def test_opening_waits_until_what_is_replayed_fits_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    database = await log_of([commit(seq, 50) for seq in range(1, 41)])
    most = 0
    take = Writer._take_replayed

    def watched(self: Writer, rows: Rows) -> None:
        nonlocal most
        take(self, rows)
        most = max(most, self.unflushed_bytes)

    monkeypatch.setattr(Writer, "_take_replayed", watched)
    options = WriterOptions(l0_sst_size_bytes=2_000, max_unflushed_bytes=40_000, l0_max_ssts=1000)
    writer = await Writer.open(database, options)
    assert writer.last_seq == 40
    assert most < 40_000 + 2 * 50 * 130, f"{most} bytes were in memory"
    rows = [row async for batch in writer.snapshot().scan() for row in batch.keys]
    assert len(rows) == 40 * 50
    await writer.close()


async def test_opening_does_not_wait_for_a_level_0_that_nobody_compacts_yet() -> None:
    database = await log_of([commit(seq, 50) for seq in range(1, 41)])
    options = replace(OPTIONS, l0_sst_size_bytes=2_000, max_unflushed_bytes=40_000)
    writer = await asyncio.wait_for(Writer.open(database, options), 10)
    assert writer.last_seq == 40
    await writer.close()


async def test_a_log_that_cannot_be_replayed_leaves_nobody_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    database = await log_of([commit(seq, 5) for seq in range(1, 30)])
    store = database.store
    before = asyncio.all_tasks()
    fence = writer_module.claim_database

    async def then_a_file_is_lost(files: DatabaseFiles, options: WriterOptions):  # type: ignore[no-untyped-def]
        claim = await fence(files, options)
        await store.delete([files.paths.wal(20)])
        return claim

    monkeypatch.setattr(writer_module, "claim_database", then_a_file_is_lost)
    with pytest.raises(DataError, match="wal truncated at wal file 20"):
        await Writer.open(database, WriterOptions())
    await asyncio.sleep(0.05)
    assert asyncio.all_tasks() == before


async def test_what_comes_after_a_replay_is_flushed_past_it() -> None:
    database = await log_of([commit(seq, 5) for seq in range(1, 4)])
    writer = await Writer.open(database, WriterOptions())
    await writer.write([Change(b"new", b"")])
    await writer.flush_memtable()
    assert writer.state.manifest.replay_after_wal_id == writer.last_wal_id
    await writer.close()
