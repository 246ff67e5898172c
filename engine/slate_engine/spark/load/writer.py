"""The sink ``slatedb`` as Spark drives it: planned in the driver, written by tasks, committed in the driver.

Each of these happens in a process of its own, to which Spark brings a copy of :class:`LoadWriter`; so it holds nothing but
the intent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from slate_engine.errors import InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.spark.heap import keep_memory
from slate_engine.spark.jobs.requests import counting
from slate_engine.spark.load.building import Part, build_part
from slate_engine.spark.load.commit import abandon_load, commit_load
from slate_engine.spark.load.intent import Intent, begin
from slate_engine.spark.load.options import LoadOptions
from slate_engine.spark.load.report import LoadReport
from slate_engine.spark.load.rows import check_schema
from slate_engine.spark.options import Location
from slate_engine.spark.reading import opened
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest

log = logging.getLogger(__name__)
T = TypeVar("T")


def writer_of(options: Mapping[str, str], schema: StructType, overwrite: bool) -> LoadWriter:
    """The writer for one ``save()``."""
    if overwrite:
        raise InvalidError(
            'a load adds rows to a database and takes none away: use mode("append"), or load into another path'
        )
    check_schema(schema)
    location, wanted = LoadOptions.of(options)
    return LoadWriter(with_files(location, lambda files: begin(files, location, wanted)))


class LoadWriter(DataSourceArrowWriter):
    """One load."""

    def __init__(self, intent: Intent) -> None:
        self.intent = intent

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Part:
        context = TaskContext.get()
        assert context is not None
        partition = context.partitionId()
        keep_memory(self.intent.options.memory_bytes)
        return with_files(
            self.intent.location,
            lambda files: build_part(self.intent, partition, iterator, files.store, files.runtime),
        )

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Whoever is told that a load has failed makes it again, so nothing behind the commit may fail it."""
        parts = [message for message in messages if isinstance(message, Part)]
        requests = counting()
        place = self.intent.options.report
        if place:
            Path(place).touch()  # where it cannot be written, nothing is committed
        committed: list[Versioned[Manifest] | None] = []

        async def work(files: DatabaseFiles) -> None:
            committed.append(await commit_load(files, self.intent, parts))

        try:
            with_files(self.intent.location, work)
        except Exception as trouble:
            if not committed:
                raise
            log.warning("the load was committed, but its store could not be closed: %s", trouble)
        if place:
            try:
                LoadReport.of(parts, committed[0], requests()).write(place)
            except OSError as trouble:
                log.warning("the load was committed, but its report could not be written: %s", trouble)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        with_files(self.intent.location, lambda files: abandon_load(files, self.intent))


def with_files(location: Location, work: Callable[[DatabaseFiles], Awaitable[T]]) -> T:
    """Carry out ``work`` on the database there, and close what was opened for it."""

    async def carry_out() -> T:
        async with opened(location) as files:
            return await work(files)

    return asyncio.run(carry_out())
