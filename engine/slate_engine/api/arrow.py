"""Scans as Arrow record batches, for those who pull them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence

import pyarrow as pa

from slate_engine.errors import InvalidError
from slate_engine.format.arrow import COLUMNS, record_batch
from slate_engine.format.columns import EMPTY


def record_batch_reader(scan: AsyncIterator[pa.RecordBatch], columns: Sequence[str] | None) -> pa.RecordBatchReader:
    """``scan`` for a library that pulls batches from a thread of its own, while this event loop goes on."""
    loop = asyncio.get_running_loop()
    schema = record_batch(EMPTY, COLUMNS if columns is None else tuple(columns)).schema

    async def following() -> pa.RecordBatch | None:
        return await anext(scan, None)

    def pull() -> Iterator[pa.RecordBatch]:
        while True:
            if _is_running_here(loop):
                raise InvalidError(
                    "this reader waits for the event loop, so it cannot be read in the loop's own thread: use "
                    "asyncio.to_thread"
                )
            batch = asyncio.run_coroutine_threadsafe(following(), loop).result()
            if batch is None:
                return
            yield batch

    return pa.RecordBatchReader.from_batches(schema, pull())


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
