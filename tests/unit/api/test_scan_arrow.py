"""Scans as Arrow record batches: the rows of the row scans, in columns."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

COLUMNS = ["key", "value", "seq", "create_ts", "expire_ts"]


async def table(source: Any, range: Any, columns: list[str] | None = None) -> pa.Table:
    batches = [batch async for batch in source.scan_arrow(range, columns)]
    return pa.Table.from_batches(batches) if batches else None


async def fill(ours: Any, db: Any) -> None:
    batch = ours.lib.WriteBatch()
    for i in range(500):
        batch.put(b"%04d" % i, b"v%d" % i)
    await db.write(batch)
    await ours.flush_memtable(db)
    await db.put_with_options(b"0001", b"new", ours.living(at=2**40), ours.lib.WriteOptions())
    await db.delete(b"0002")


async def test_batches_hold_what_rows_hold(ours: Any) -> None:
    async with ours.db() as db:
        await fill(ours, db)
        wanted = ours.between(b"0001", b"0100", through=True)
        rows = await (await db.scan(wanted)).next_batch(1000)
        found = await table(db, wanted)
        assert found.column_names == COLUMNS
        assert found.to_pydict() == {name: [getattr(row, name) for row in rows] for name in COLUMNS}
        assert found["expire_ts"].to_pylist()[:2] == [2**40, None]
        assert await table(db, ours.between(b"x", None)) is None
        keys = await table(db, wanted, ["key", "seq"])
        assert keys.column_names == ["key", "seq"]
        assert keys["key"].to_pylist() == [row.key for row in rows]
        with pytest.raises(ours.lib.Error.Invalid, match="no column 'nonsense'"):
            await table(db, wanted, ["nonsense"])
        with pytest.raises(ours.lib.Error.Invalid, match="range start must not be greater"):
            await table(db, ours.between(b"z", b"a"))


async def test_every_handle_has_them(ours: Any) -> None:
    store, lib = ours.memory(), ours.lib
    async with ours.db(store) as db:
        await fill(ours, db)
        snapshot, transaction = await db.snapshot(), await db.begin(lib.IsolationLevel.SNAPSHOT)
        scope = lib.CheckpointScope.All(force_flush=True)
        options = lib.CheckpointOptions(lifetime_ms=None, source=None, name=None)
        checkpoint = await db.create_checkpoint(scope, options)
        await db.put(b"0000", b"later")
        await db.flush()
        await transaction.put(b"0000", b"mine")
        for source, first in ((db, b"later"), (snapshot, b"v0"), (transaction, b"mine")):
            found = await table(source, ours.everything)
            assert found.num_rows == 499
            assert found["value"][0].as_py() == first
        for mode, first in (
            (lib.ReaderMode.CHECKPOINT(checkpoint.id), b"v0"),
            (lib.ReaderMode.FOLLOW_LATEST(), b"later"),
        ):
            async with ours.reader(store, reader_mode=mode) as reader:
                found = await table(reader, ours.everything)
                assert found.num_rows == 499
                assert found["value"][0].as_py() == first


async def test_a_library_that_pulls_reads_in_a_thread(ours: Any) -> None:
    async with ours.db() as db:
        await fill(ours, db)
        reader = db.scan_arrow_reader(ours.everything, ["key"])
        assert isinstance(reader, pa.RecordBatchReader)
        assert reader.schema.names == ["key"]
        found = await asyncio.to_thread(reader.read_all)
        assert found.num_rows == 499
        empty = await asyncio.to_thread(db.scan_arrow_reader(ours.between(b"x", None)).read_all)
        assert (empty.num_rows, empty.column_names) == (0, COLUMNS)


async def test_pulling_in_the_loop_itself_is_refused_and_not_hung_on(ours: Any) -> None:
    async with ours.db() as db:
        await fill(ours, db)
        reader = db.scan_arrow_reader(ours.everything)
        with pytest.raises(Exception, match=r"asyncio\.to_thread"):
            reader.read_all()


async def test_a_closed_database_says_so(ours: Any) -> None:
    async with ours.db() as db:
        await db.shutdown()
        with pytest.raises(ours.lib.Error.Closed):
            await table(db, ours.everything)
