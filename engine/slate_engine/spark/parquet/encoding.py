"""Arrow batches to Parquet files, a row group at a time: what was encoded leaves before more is taken in."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from slate_engine.spark.parquet.layout import Layout
from slate_engine.store.protocol import Buffer

_SCHEMA = "org.apache.spark.sql.parquet.row.metadata"
"""Where Spark keeps the types of a table that Parquet has no names for."""


class Encoder:
    """The files of one stream of batches: :meth:`begin` each, then take its :meth:`chunk`\\ s."""

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: StructType, layout: Layout) -> None:
        self._batches = batches
        self._schema = schema
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._layout = layout
        self._tray = _Tray()
        self._writer: pq.ParquetWriter | None = None
        self._waiting: list[pa.RecordBatch] = []
        self.rows = 0

    def begin(self) -> bool:
        """Whether there are rows for another file, which is begun."""
        self._waiting = self._waiting or self._gathered()
        if self._waiting:
            self._open()
        return bool(self._waiting)

    def chunk(self) -> Buffer | None:
        """The next bytes of the file; None behind its end."""
        if self._writer is None:
            return None
        group = pa.Table.from_batches(self._waiting)
        self.rows += len(group)
        self._writer.write_table(group, row_group_size=max(len(group), 1))
        self._waiting = self._gathered()
        if not self._waiting or self._tray.tell() >= self._layout.part_bytes:
            self._close()
        return self._tray.taken()

    def empty(self) -> Buffer:
        """A file without rows, which tells the columns of a table that has none."""
        self._open()
        self._close()
        return self._tray.taken()

    def _gathered(self) -> list[pa.RecordBatch]:
        gathered, size = [], 0
        for batch in self._batches:
            if not batch.num_rows:
                continue
            gathered.append(batch.cast(self._arrow))
            size += batch.nbytes
            if size >= self._layout.group_bytes:
                break
        return gathered

    def _open(self) -> None:
        self._tray = _Tray()
        # As Spark's own writer has it: decimals of few digits are numbers, and there is no second schema, of Arrow's.
        self._writer = pq.ParquetWriter(
            self._tray,
            self._arrow,
            compression=self._layout.compression,
            store_schema=False,
            store_decimal_as_integer=True,
        )

    def _close(self) -> None:
        assert self._writer is not None
        self._writer.add_key_value_metadata({_SCHEMA: self._schema.json()})
        self._writer.close()
        self._writer = None


class _Tray(io.RawIOBase):
    """A file that is only written: what stands on it is taken away, and the place in the file goes on."""

    def __init__(self) -> None:
        self._held: list[bytes] = []
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer) -> int:  # type: ignore[override]
        self._held.append(bytes(data))
        self._length += len(self._held[-1])
        return len(self._held[-1])

    def tell(self) -> int:
        return self._length

    def taken(self) -> bytes:
        held, self._held = self._held, []
        return b"".join(held)
