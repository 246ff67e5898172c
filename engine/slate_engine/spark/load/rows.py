"""Arrow batches of a frame as rows of a database, and which frames can be."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.types import BinaryType, DataType, LongType, StringType, StructType

from slate_engine.errors import InvalidError
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, I64, TOMBSTONE, Bytes, Rows

BYTES = (BinaryType, StringType)
COLUMNS: dict[str, tuple[type[DataType], ...]] = {
    "key": BYTES,
    "value": BYTES,
    "create_ts": (LongType,),
    "expire_ts": (LongType,),
}
"""What a frame may have. A row without a value deletes its key; times are milliseconds of the unix epoch."""


def check_schema(schema: StructType) -> None:
    """Raises unless the frame has keys and values, in types that are bytes already: how others become bytes is for their
    owner to say, since keys sort by them."""
    for field in schema.fields:
        wanted = COLUMNS.get(field.name)
        if wanted is None:
            raise InvalidError(
                f"a load takes the columns {', '.join(COLUMNS)}, and the frame has {field.name!r}; select what is to be "
                "loaded (sequence numbers are given by the load itself)"
            )
        if not isinstance(field.dataType, wanted):
            names = " or ".join(kind.typeName() for kind in wanted)
            raise InvalidError(
                f"column {field.name!r} is {field.dataType.simpleString()} and must be {names}; cast it, so that keys sort "
                "as they are to be read"
            )
    missing = [name for name in ("key", "value") if name not in schema.fieldNames()]
    if missing:
        raise InvalidError(f"a load takes rows with a key and a value; the frame has no column {missing[0]!r}")


def rows_of(batch: pa.RecordBatch, *, seq: int, created_ms: int, ttl_ms: int | None) -> Rows:
    """The rows of a batch, which share its buffers. What the frame leaves open is filled in: rows are of ``created_ms``,
    and expire ``ttl_ms`` after that."""
    count = batch.num_rows
    keys = _bytes(batch.column("key"))
    if batch.column("key").null_count or (count and int(keys.lengths.min()) == 0):
        raise InvalidError("a row has no key, or an empty one; a database cannot hold it: filter such rows out")
    value = batch.column("value")
    flags = np.where(_present(value), HAS_CREATE, HAS_CREATE | TOMBSTONE).astype(np.uint8)
    created = _times(batch, "create_ts", created_ms)
    expires = _times(batch, "expire_ts", None if ttl_ms is None else created_ms + ttl_ms)
    if expires is None:
        expire_ts = np.zeros(count, np.int64)
    else:
        expire_ts, known = expires
        flags[known] |= HAS_EXPIRE
    assert created is not None
    if count and int(created[0].max()) > created_ms:
        raise InvalidError(
            "a row has a create_ts after the load began; the clock of the database would have to wait for it: correct the "
            "column, or leave it out"
        )
    return Rows(keys, _bytes(value), np.full(count, seq, np.uint64), flags, created[0], expire_ts)


def _times(batch: pa.RecordBatch, name: str, default: int | None) -> tuple[I64, npt.NDArray[np.bool_]] | None:
    """The column and where it counts; None if it counts nowhere."""
    count = batch.num_rows
    if name not in batch.schema.names:
        return None if default is None else (np.full(count, default, np.int64), np.ones(count, np.bool_))
    column = batch.column(name)
    known = _present(column)
    values = column.fill_null(0 if default is None else default).to_numpy(zero_copy_only=False).astype(np.int64)
    return values, known | (default is not None)


def _present(column: pa.Array) -> npt.NDArray[np.bool_]:
    if not column.null_count:
        return np.ones(len(column), np.bool_)
    present: npt.NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return present


def _bytes(column: pa.Array) -> Bytes:
    """A column of binary or string items as it lies in memory. Where an item is null nothing lies: its two offsets are
    equal in all that Spark sends."""
    large = pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type)
    _, offsets, data = column.buffers()
    places: Any = np.frombuffer(offsets, np.int64 if large else np.int32)[
        column.offset : column.offset + len(column) + 1
    ]
    raw = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    return Bytes(raw, places.astype(np.int64))
