"""Rows as Arrow: right values, right nulls, no copies."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from slate_engine.errors import InvalidError
from slate_engine.format.arrow import COLUMNS, record_batch
from slate_engine.format.columns import EMPTY, HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Bytes, Rows

ROWS = Rows.of(
    [
        (b"a", b"1", 9, HAS_CREATE, 100, 0),
        (b"a", b"", 8, TOMBSTONE, 0, 0),
        (b"bb", b"", 7, HAS_CREATE | HAS_EXPIRE | MERGE, 101, 0),
        (b"ccc", b"333", 2**64 - 1, HAS_EXPIRE, 0, -5),
    ]
)
EXPECTED = {
    "key": [b"a", b"a", b"bb", b"ccc"],
    "value": [b"1", None, b"", b"333"],
    "seq": [9, 8, 7, 2**64 - 1],
    "create_ts": [100, None, 101, None],
    "expire_ts": [None, None, 0, -5],
    "flags": [4, 1, 14, 2],
}


@pytest.mark.parametrize("large", [True, False])
def test_values_and_nulls(large: bool) -> None:
    batch = record_batch(ROWS, [*COLUMNS, "flags"], large=large)
    batch.validate(full=True)
    assert batch.to_pydict() == EXPECTED
    assert batch.schema.field("key").type == (pa.large_binary() if large else pa.binary())


@pytest.mark.parametrize("large", [True, False])
def test_slices(large: bool) -> None:
    batch = record_batch(ROWS.slice(1, 3), large=large)
    batch.validate(full=True)
    assert batch.to_pydict() == {name: EXPECTED[name][1:3] for name in COLUMNS}


def test_projection_and_no_rows() -> None:
    assert record_batch(ROWS, ["seq", "key"]).to_pydict() == {"seq": EXPECTED["seq"], "key": EXPECTED["key"]}
    assert record_batch(EMPTY).num_rows == 0
    with pytest.raises(InvalidError, match="colour"):
        record_batch(ROWS, ["colour"])


def test_nothing_is_copied() -> None:
    batch = record_batch(ROWS)
    for name, array in (("key", ROWS.keys.data), ("value", ROWS.values.data)):
        assert batch.column(name).buffers()[2].address == array.ctypes.data
    assert batch.column("key").buffers()[1].address == ROWS.keys.offsets.ctypes.data
    assert batch.column("seq").buffers()[1].address == ROWS.seq.ctypes.data
    assert batch.column("key").buffers()[0] is None


def test_32_bit_offsets_have_an_end() -> None:
    endless = Bytes(np.broadcast_to(np.uint8(0), 1 << 33), np.array([0, 1 << 32, 1 << 32, 1 << 32, 1 << 32]))
    rows = Rows(ROWS.keys, endless, ROWS.seq, ROWS.flags, ROWS.create_ts, ROWS.expire_ts)
    with pytest.raises(InvalidError, match="32-bit"):
        record_batch(rows, ["value"], large=False)
