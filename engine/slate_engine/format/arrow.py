"""Rows as an Arrow record batch, without copying the columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from slate_engine.errors import InvalidError
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, TOMBSTONE, Bytes, Rows

COLUMNS = ("key", "value", "seq", "create_ts", "expire_ts")
"""What a reader of resolved rows wants. ``flags`` is the sixth, for those who look at versions and merge operands."""


def record_batch(rows: Rows, columns: Sequence[str] = COLUMNS, *, large: bool = True) -> pa.RecordBatch:
    """The named columns of ``rows``. A tombstone's value and a timestamp that a row does not have are null.

    ``large`` gives ``large_binary``, whose offsets are those of our columns; without it, ``binary`` with 32-bit offsets as
    Spark wants them, for batches of less than 2 GiB.
    """
    return pa.RecordBatch.from_arrays([_array(rows, name, large) for name in columns], names=list(columns))


def _array(rows: Rows, name: str, large: bool) -> pa.Array:
    match name:
        case "key":
            return _binary(rows.keys, None, large)
        case "value":
            return _binary(rows.values, _validity(rows.flags & TOMBSTONE == 0), large)
        case "seq":
            return _numbers(pa.uint64(), rows.seq, None)
        case "create_ts":
            return _numbers(pa.int64(), rows.create_ts, _validity(rows.flags & HAS_CREATE != 0))
        case "expire_ts":
            return _numbers(pa.int64(), rows.expire_ts, _validity(rows.flags & HAS_EXPIRE != 0))
        case "flags":
            return _numbers(pa.uint8(), rows.flags, None)
    raise InvalidError(f"rows have no column {name!r}; there are {', '.join(COLUMNS)} and flags")


def _validity(present: npt.NDArray[np.bool_]) -> pa.Buffer | None:
    return None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))


def _numbers(kind: pa.DataType, column: npt.NDArray[np.generic], validity: pa.Buffer | None) -> pa.Array:
    return pa.Array.from_buffers(kind, len(column), [validity, pa.py_buffer(np.ascontiguousarray(column))])


def _binary(column: Bytes, validity: pa.Buffer | None, large: bool) -> pa.Array:
    offsets, data = column.offsets, column.data
    if not large:
        first, last = int(offsets[0]), int(offsets[-1])
        if last - first > np.iinfo(np.int32).max:
            raise InvalidError(
                f"{last - first} bytes do not fit 32-bit offsets; ask for fewer rows or for large columns"
            )
        data, offsets = data[first:last], (offsets - first).astype(np.int32)
    buffers = [validity, pa.py_buffer(np.ascontiguousarray(offsets)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary() if large else pa.binary(), len(column), buffers)
