"""The format ``slatedb`` for Spark: what it can do, and which module does it.

Spark makes one of these for each ``load()`` or ``save()``, in a process of its own, and sends it on to the processes that
plan and commit; so it holds nothing but options and a number. What a use needs is imported by that use.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from uuid import UUID

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, DataSourceWriter
from pyspark.sql.types import StructType

from slate_engine.runtime import SystemRuntime, uuid4

FORMAT = "slatedb"


class SlateSource(DataSource):
    """A database as a source and a sink of rows."""

    keeper: str = ""
    """Where the driver listens for those who need a checkpoint; ``register`` sets it."""
    pushes: bool = False
    """Whether this Spark keeps a pushed filter to the scan that it belongs to; ``register`` finds out."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.hold: UUID = uuid4(SystemRuntime())
        """The checkpoint of this frame, should it need one: however often it is planned, it is the same state."""
        self.settled = False
        """Whether all scans of the frame share this object. Spark makes it to ask for the schema, before the first scan. If
        the user gives a schema, the scans of a query make it at the same time, and each may get its own."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> str:
        from slate_engine.spark.columns import schema_of

        self.settled = True
        return schema_of(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:
        from slate_engine.spark.frame import reader_of

        return reader_of(self.options, schema, self.hold, self.keeper, pushes=self.pushes, settled=self.settled)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from slate_engine.spark.load import writer_of

        return writer_of(self.options, schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from slate_engine.spark.stream import stream_reader_of

        return stream_reader_of(self.options, schema)
