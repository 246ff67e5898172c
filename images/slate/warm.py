"""Use a database once in each way that pods do, so that the kernels for it are compiled and kept."""

from __future__ import annotations

import asyncio

import slate_engine as slatedb

EVERYTHING = slatedb.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False)


async def main() -> None:
    store = slatedb.ObjectStore.resolve("memory:///")
    db = await slatedb.DbBuilder("warm", store).build()
    for number in range(3):
        for row in range(64):
            await db.put(f"{number}-{row:04}".encode(), bytes(100))
        await db.flush()
    assert await db.get(b"1-0001") == bytes(100)
    rows = 0
    async for batch in db.scan_arrow(EVERYTHING):
        rows += batch.num_rows
    assert rows == 192, rows
    await db.shutdown()


asyncio.run(main())
