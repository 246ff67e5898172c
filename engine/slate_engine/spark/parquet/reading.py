"""A table read through our own stores: planned from the footers of its files, read a row group at a time.

Of a row group only the bytes of the wanted columns are fetched. Spark does not tell a source of ours which columns it
needs, so whoever reads names them.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_type, to_arrow_schema
from pyspark.sql.types import StructField, StructType

from slate_engine.errors import DataError, InvalidError
from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.spark.parquet.folder import Folder, visible
from slate_engine.spark.reading import pulled
from slate_engine.store.protocol import Buffer, ObjectMeta, ObjectStore

MAGIC = b"PAR1"
TAIL_BYTES = 64 << 10
"""A footer is looked for in so many bytes first."""

SLACK = 128
"""Old writers give a column chunk a few bytes less than it has, and readers ask for some more."""

FOOTERS_AT_ONCE = 32
BATCH_ROWS = 8192


@dataclass(frozen=True)
class Share(InputPartition):
    """The row groups ``[first, last)`` of a file, for one task."""

    key: str
    size: int
    first: int
    last: int


@dataclass(frozen=True)
class Table:
    """All that a task needs to know beside its share."""

    folder: Folder
    schema: StructType
    shares: tuple[Share, ...]


def read_folder(spark: SparkSession, folder: Folder, columns: Sequence[str], target: int) -> DataFrame:
    """These columns of all files in a folder, in tasks of about ``target`` bytes."""
    table = asyncio.run(_planned(folder, columns, target))
    name = f"slate-parquet-{uuid4(SystemRuntime())}"
    spark.dataSource.register(type("Source", (FolderSource,), {"format": name, "table": table}))
    return spark.read.format(name).load()


class FolderSource(DataSource):
    """The source of one read."""

    format: str
    table: Table

    @classmethod
    def name(cls) -> str:
        return cls.format

    def schema(self) -> StructType:
        return self.table.schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return FolderReader(self.table)


class FolderReader(DataSourceReader):
    def __init__(self, table: Table) -> None:
        self._table = table

    def partitions(self) -> Sequence[InputPartition]:
        return list(self._table.shares)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, Share):
            return iter(())
        return pulled(_batches(self._table, partition))


async def _planned(folder: Folder, columns: Sequence[str], target: int) -> Table:
    async with folder.opened() as (store, _):
        files = [meta async for meta in visible(store) if meta.size]
        if not files:
            raise InvalidError(f"there is no table at {store.url}: name the folder that has its Parquet files in it")
        slots = asyncio.Semaphore(FOOTERS_AT_ONCE)

        async def look(file: ObjectMeta) -> tuple[StructType, list[Share]]:
            async with slots:
                footer = await _footer(store, file.key, file.size)
            return _schema(footer, columns, file.key), _shares(footer, columns, file, target)

        looked = await asyncio.gather(*(look(file) for file in files))
    schema = looked[0][0]
    for file, (other, _) in zip(files, looked, strict=True):
        if other != schema:
            raise InvalidError(
                f"{file.key} has other types than {files[0].key}: {other.simpleString()} and {schema.simpleString()}; "
                "load them one after the other, from folders of their own"
            )
    return Table(folder, schema, tuple(share for _, shares in looked for share in shares))


def _schema(footer: pq.FileMetaData, columns: Sequence[str], key: str) -> StructType:
    """The wanted columns as Spark has them. What one file lacks is not taken for null: that may mean a deletion."""
    found = footer.schema.to_arrow_schema()
    for name in columns:
        if name not in found.names:
            raise InvalidError(f"the table has no column {name!r} in {key}; it has {', '.join(found.names)}")
    return StructType([StructField(name, from_arrow_type(_plain(found.field(name).type))) for name in columns])


def _plain(type: pa.DataType) -> pa.DataType:
    return type.value_type if pa.types.is_dictionary(type) else type


def _shares(footer: pq.FileMetaData, columns: Sequence[str], file: ObjectMeta, target: int) -> list[Share]:
    shares, first, size = [], 0, 0
    for group in range(footer.num_row_groups):
        size += sum(end - start for start, end in _ranges(footer, group, columns, file.size))
        if size >= target or group == footer.num_row_groups - 1:
            shares.append(Share(file.key, file.size, first, group + 1))
            first, size = group + 1, 0
    return shares


async def _footer(store: ObjectStore, key: str, size: int) -> pq.FileMetaData:
    wrong = DataError(f"{key} in {store.url} is no Parquet file, or is cut short: remove it from the table's folder")
    (tail,) = await store.get_ranges(key, [(max(size - TAIL_BYTES, 0), size)])
    end = bytes(memoryview(tail)[-8:])
    if len(end) < 8 or end[4:] != MAGIC:
        raise wrong
    length = int.from_bytes(end[:4], "little") + 8
    if length > size:
        raise wrong
    if length > len(tail):
        (tail,) = await store.get_ranges(key, [(size - length, size)])
    try:
        return pq.read_metadata(pa.BufferReader(pa.py_buffer(tail)))
    except (pa.ArrowException, OSError):
        raise wrong from None


async def _batches(table: Table, share: Share) -> AsyncGenerator[pa.RecordBatch, None]:
    columns = table.schema.fieldNames()
    wanted = to_arrow_schema(table.schema, timezone="UTC")
    async with table.folder.opened() as (store, runtime):
        footer = await _footer(store, share.key, share.size)
        for group in range(share.first, share.last):
            ranges = _ranges(footer, group, columns, share.size)
            fetched = _Fetched(share.size, ranges, await store.get_ranges(share.key, ranges))
            file = pq.ParquetFile(pa.PythonFile(fetched, mode="r"), metadata=footer)
            batches = file.iter_batches(BATCH_ROWS, row_groups=[group], columns=columns, use_threads=False)
            try:
                while (batch := await runtime.run(next, batches, None)) is not None:
                    yield batch.select(columns).cast(wanted)
            except (pa.ArrowException, OSError) as error:
                raise DataError(f"row group {group} of {share.key} in {store.url} cannot be read: {error}") from None


def _ranges(footer: pq.FileMetaData, group: int, columns: Sequence[str], size: int) -> list[tuple[int, int]]:
    """The bytes of some columns of a row group, in ascending order, joined where they touch."""
    chunks = []
    row_group = footer.row_group(group)
    for number in range(row_group.num_columns):
        chunk = row_group.column(number)
        if any(chunk.path_in_schema == name or chunk.path_in_schema.startswith(f"{name}.") for name in columns):
            start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
            chunks.append((start, min(start + chunk.total_compressed_size + SLACK, size)))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(chunks):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(end, joined[-1][1])
        else:
            joined.append((start, end))
    return joined


class _Fetched(io.RawIOBase):
    """A file of which some ranges are here. Arrow asks for nothing else."""

    def __init__(self, size: int, ranges: Sequence[tuple[int, int]], data: Sequence[Buffer]) -> None:
        self._size = size
        self._pieces = [(start, memoryview(piece).cast("B")) for (start, _), piece in zip(ranges, data, strict=True)]
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        for start, piece in self._pieces:
            if start <= self._at < start + len(piece):
                found = bytes(piece[self._at - start :][: size if size >= 0 else None])
                self._at += len(found)
                return found
        raise OSError(f"bytes at {self._at} were not fetched")
