"""A table as Spark writes one: planned in the driver, written by tasks, made visible by the driver.

Each of these happens in a process of its own, to which Spark brings a copy of :class:`FolderWriter`. All that is settled
goes along inside the class of the sink, not as options, which Spark would show.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from slate_engine.runtime import Runtime, SystemRuntime, uuid4
from slate_engine.spark.jobs.requests import counting
from slate_engine.spark.jobs.summary import added
from slate_engine.spark.parquet.commit import Mode, Staged, abandon, check_target, commit
from slate_engine.spark.parquet.encoding import Encoder
from slate_engine.spark.parquet.folder import Folder
from slate_engine.spark.parquet.layout import Layout
from slate_engine.store.protocol import Buffer, ObjectStore

log = logging.getLogger(__name__)

JOB = "SLATE_JOB"
"""Who tries a job again, gives all its tries one name: the last one replaces what those before may have left."""


@dataclass(frozen=True)
class Intent:
    """What is settled before the first task. ``report`` is a file on the driver's machine."""

    folder: Folder
    mode: Mode
    layout: Layout
    job: str
    report: str


@dataclass(frozen=True)
class TableReport:
    """What was written."""

    files: int
    bytes: int
    requests: dict[str, int]


@dataclass
class Written(WriterCommitMessage):
    """What an attempt of a task has staged."""

    partition: int
    staged: tuple[Staged, ...]
    requests: dict[str, int]


def write_folder(frame: DataFrame, folder: Folder, mode: Mode, layout: Layout) -> TableReport | None:
    """Write all rows of ``frame``; they become visible together at the end, or not at all. What was written, if the report
    about it could be."""
    job = os.environ.get(JOB) or str(uuid4(SystemRuntime()))
    asyncio.run(_check(folder, mode, job))
    with TemporaryDirectory(prefix="slate-table-") as scratch:
        report = Path(scratch, "report.json")
        intent = Intent(folder, mode, layout, job, str(report))
        name = f"slate-parquet-{job}"
        frame.sparkSession.dataSource.register(type("Sink", (FolderSink,), {"format": name, "intent": intent}))
        frame.write.format(name).mode("append").save()
        try:
            return TableReport(**json.loads(report.read_text()))
        except (OSError, ValueError):
            return None  # the disk is full, or whatever it is that the writer has warned of: the table is complete


async def _check(folder: Folder, mode: Mode, job: str) -> None:
    async with folder.opened() as (store, _):
        await check_target(store, mode, job)


class FolderSink(DataSource):
    """The sink of one write."""

    format: str
    intent: Intent

    @classmethod
    def name(cls) -> str:
        return cls.format

    def writer(self, schema: StructType, overwrite: bool) -> FolderWriter:
        return FolderWriter(self.intent, schema)


class FolderWriter(DataSourceArrowWriter):
    def __init__(self, intent: Intent, schema: StructType) -> None:
        self.intent = intent
        self.schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        context = TaskContext.get()
        assert context is not None
        return asyncio.run(self._write(context.partitionId(), iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Whoever is told that a write has failed makes it again, so nothing behind the commit may fail it."""
        written = sorted((each for each in messages if isinstance(each, Written)), key=lambda each: each.partition)
        requests, place = counting(), Path(self.intent.report)
        place.touch()  # where it cannot be written, nothing is committed
        committed: list[int] = []
        try:
            asyncio.run(self._commit([part for each in written for part in each.staged], committed))
        except Exception as trouble:
            if not committed:
                raise
            log.warning("the table is complete, but its store could not be closed: %s", trouble)
        size = sum(part.size for each in written for part in each.staged)
        counts = added([*(each.requests for each in written), requests()])
        try:
            place.write_text(json.dumps(asdict(TableReport(committed[0], size, counts))))
        except OSError as trouble:
            log.warning("the table is complete, but the report about it could not be written: %s", trouble)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        asyncio.run(self._abort())

    async def _write(self, partition: int, batches: Iterator[pa.RecordBatch]) -> Written:
        requests = counting()
        async with self.intent.folder.opened() as (store, runtime):
            encoder = Encoder(batches, self.schema, self.intent.layout)
            staged = await stage(store, runtime, encoder, self.intent.job, partition)
        return Written(partition, staged, requests())

    async def _commit(self, staged: list[Staged], committed: list[int]) -> None:
        """Adds to ``committed`` how many files the table has got."""
        intent = self.intent
        async with intent.folder.opened() as (store, _):
            empty = Encoder(iter(()), self.schema, intent.layout).empty()
            committed.append(await commit(store, intent.mode, intent.job, staged, empty))

    async def _abort(self) -> None:
        async with self.intent.folder.opened() as (store, _):
            await abandon(store, self.intent.job)


async def stage(store: ObjectStore, runtime: Runtime, encoder: Encoder, job: str, partition: int) -> tuple[Staged, ...]:
    """What an attempt of a task does: files of its own, under names that no other attempt has."""
    attempt = uuid4(runtime)
    staged: list[Staged] = []
    while await runtime.run(encoder.begin):
        key = f"{Staged.folder(job)}{partition:05d}-{attempt}-{len(staged)}.parquet"
        sizes: list[int] = []

        async def chunks(sizes: list[int] = sizes) -> AsyncIterator[Buffer]:
            # The next row group is encoded while the last one is on its way.
            while (chunk := await runtime.run(encoder.chunk)) is not None:
                sizes.append(len(chunk))
                yield chunk

        await store.put_stream(key, chunks())
        staged.append(Staged(key, sum(sizes)))
    return tuple(staged)
