"""One task of a load: rows in any order to SSTs in the store. Nothing that it writes is part of the database yet.

A task that fails is run again, and one that is slow may be run twice; each attempt writes SSTs of its own, and Spark lets
the answer of one of them through.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import WriterCommitMessage

from slate_engine.format.columns import Rows
from slate_engine.lsm.compaction.output import Piece, RunBuilder, RunWriter
from slate_engine.lsm.compaction.resources import ROW_BYTES, SMALLEST_SST
from slate_engine.lsm.paths import Paths
from slate_engine.runtime import Runtime
from slate_engine.spark.jobs.requests import counting
from slate_engine.spark.load.intent import Intent
from slate_engine.spark.load.rows import rows_of
from slate_engine.spark.load.sorting import Sorter
from slate_engine.state.ssts import SstHandle
from slate_engine.store.protocol import ObjectStore


@dataclass
class Part(WriterCommitMessage):
    """What a task has made of its partition: SSTs in the order of their keys."""

    partition: int
    ssts: tuple[SstHandle, ...]
    rows: int
    bytes: int
    requests: dict[str, int]


async def build_part(
    intent: Intent, partition: int, batches: Iterable[pa.RecordBatch], store: ObjectStore, runtime: Runtime
) -> Part:
    """Sort what comes, and store it."""
    requests = counting()
    decode = partial(rows_of, seq=intent.seq, created_ms=intent.created_ms, ttl_ms=intent.options.ttl_ms)
    memory = intent.options.memory_bytes
    with tempfile.TemporaryDirectory(prefix="slate-load-") as folder:
        reread = partial(decode, ttl_ms=None)
        sorter = Sorter(memory, Path(folder), reread, any_of_duplicates=intent.options.any_of_duplicates)
        for batch in batches:
            if batch.num_rows:
                sorter.add(decode(batch))
        stored, rows = await _store(intent, sorter.chunks(), store, runtime)
    size = sum(handle.estimated_size for handle in stored)
    return Part(partition, tuple(stored), rows, size, requests())


async def _store(
    intent: Intent, chunks: Iterator[Rows], store: ObjectStore, runtime: Runtime
) -> tuple[list[SstHandle], int]:
    """The SSTs of these sorted rows, and how many rows they hold."""
    # A quarter of the memory is for what the SST under construction remembers of its rows.
    most_rows = max(intent.options.memory_bytes // 4 // ROW_BYTES, SMALLEST_SST)
    builder = RunBuilder(intent.sst, intent.options.sst_bytes, most_rows)
    stored: list[SstHandle] = []
    compacted = Paths(intent.location.path).compacted
    writer = RunWriter(store, compacted, runtime, intent.deadline_ms, stored.append)
    rows = 0

    def work() -> list[Piece] | None:
        nonlocal rows
        chunk = next(chunks, None)
        if chunk is None:
            return None
        rows += len(chunk)
        return builder.append(chunk)

    try:
        # The next chunk is sorted and built while the last one is on its way.
        while (pieces := await runtime.run(work)) is not None:
            await writer.write(pieces)
        await writer.write(await runtime.run(builder.finish))
        await writer.finish()
    finally:
        await writer.abandon()
    return stored, rows
