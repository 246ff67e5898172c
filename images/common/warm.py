"""Use a database once in each way that pods do, so that the kernels for it are compiled and kept.

Run again, it says that it had to compile none: they were kept.
"""

from __future__ import annotations

import asyncio
import sys

import slate_engine as slatedb
from slate_engine.format.kernel import compilations
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles

EVERYTHING = slatedb.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)
CODECS = ("null", '"Snappy"', '"Zlib"', '"Lz4"', '"Zstd"')
MEMTABLES, ROWS = 3, 2500  # a log file of so many rows is encoded by another kernel than one of a few


async def use(store: slatedb.ObjectStore, path: str, codec: str) -> None:
    settings = slatedb.Settings.default()
    for name, value in {"compression_codec": codec, "compactor_options": "null", "min_filter_keys": "1"}.items():
        settings.set(name, value)
    builder = slatedb.DbBuilder(path, store)
    builder.with_settings(settings)
    db = await builder.build()
    for number in range(MEMTABLES):
        batch = slatedb.WriteBatch()
        for row in range(ROWS):
            batch.put(f"{row:05}-{number}".encode(), bytes(100))
        batch.delete(f"{number:05}-0".encode())
        await db.write(batch)
        await db.flush_with_options(slatedb.FlushOptions(flush_type=slatedb.FlushType.MEM_TABLE))
    await db.put(b"last", b"in the log")
    await db.flush()
    assert await db.get(b"00063-2") == bytes(100)
    await read(db)
    reader = await slatedb.DbReaderBuilder(path, store).build()
    assert await reader.get(b"last") == b"in the log"
    await reader.shutdown()
    await db.shutdown()
    await compact_once(DatabaseFiles(store.store, path, store.runtime), Major(), force=True)
    compacted = await slatedb.DbBuilder(path, store).build()
    await read(compacted)
    await compacted.shutdown()
    await slatedb.AdminBuilder(path, store).build().run_gc_once(None)


async def read(db: slatedb.Db) -> None:
    rows = 0
    async for batch in db.scan_arrow(EVERYTHING):
        rows += batch.num_rows
    assert rows == MEMTABLES * ROWS - 3 + 1, rows
    assert await db.get(b"00001-0") is None


async def main() -> None:
    store = slatedb.ObjectStore.resolve("memory:///")
    for number, codec in enumerate(CODECS):
        await use(store, f"warm-{number}", codec)


asyncio.run(main())
sys.stdout.write(f"{compilations()} kernels compiled\n")
