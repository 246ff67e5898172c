"""Rows in any order, sorted within a limit of memory."""

from __future__ import annotations

import random
import subprocess
import sys
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from slate_engine.errors import InvalidError
from slate_engine.format.columns import TOMBSTONE
from slate_engine.spark.load.rows import rows_of
from slate_engine.spark.load.sorting import Sorter
from tests.spark.loads import batch

decode = partial(rows_of, seq=7, created_ms=1000, ttl_ms=None)


def sorter(folder: Path, memory: int, *, any_of_duplicates: bool = False) -> Sorter:
    return Sorter(memory, folder, decode, any_of_duplicates=any_of_duplicates)


@pytest.mark.parametrize("memory", [1 << 30, 4096, 300], ids=["in memory", "a few files", "a file a batch"])
def test_all_rows_come_back_in_order_whatever_the_memory(tmp_path: Path, memory: int) -> None:
    chance = random.Random(1)
    keys = [chance.randbytes(chance.randrange(1, 12)) for _ in range(3000)]
    values = {key: None if chance.random() < 0.1 else chance.randbytes(chance.randrange(20)) for key in keys}
    listed = list(values.items())
    chance.shuffle(listed)
    sorting = sorter(tmp_path, memory)
    for start in range(0, len(listed), 100):
        sorting.add(decode(batch(dict(listed[start : start + 100]))))
    found = [row for chunk in sorting.chunks() for row in chunk.tuples()]
    assert [(row[0], None if row[3] & TOMBSTONE else row[1]) for row in found] == sorted(values.items())
    assert {row[2] for row in found} == {7}
    assert bool(list(tmp_path.iterdir())) is (memory < 1 << 20)


@pytest.mark.parametrize("memory", [1 << 30, 64], ids=["in memory", "from files"])
def test_a_key_twice_is_an_error_or_the_last_counts(tmp_path: Path, memory: int) -> None:
    for wanted in (False, True):
        folder = tmp_path / str(wanted)
        folder.mkdir()
        sorting = sorter(folder, memory, any_of_duplicates=wanted)
        for value in (b"1", b"2"):
            sorting.add(decode(batch({b"b": value, b"a" + value: b"x"})))
        if wanted:
            found = [row[:2] for chunk in sorting.chunks() for row in chunk.tuples()]
            assert found == [(b"a1", b"x"), (b"a2", b"x"), (b"b", b"2")]
        else:
            with pytest.raises(InvalidError, match="two rows have the key b'b'"):
                list(sorting.chunks())


def test_times_are_those_of_the_frame_or_of_the_load() -> None:
    columns = {"key": [b"a", b"b"], "value": ["x", None], "expire_ts": [5000, None], "create_ts": [None, 900]}
    types = {"key": pa.binary(), "value": pa.string(), "expire_ts": pa.int64(), "create_ts": pa.int64()}
    made = pa.RecordBatch.from_arrays([pa.array(columns[name], types[name]) for name in types], names=list(types))
    rows = list(rows_of(made, seq=1, created_ms=1000, ttl_ms=50).tuples())
    assert [(row[4], row[5]) for row in rows] == [(1000, 5000), (900, 1050)]
    with pytest.raises(InvalidError, match="create_ts after the load began"):
        rows_of(made, seq=1, created_ms=899, ttl_ms=None)
    with pytest.raises(InvalidError, match="no key"):
        decode(batch({b"": b"x"}))


MEASURE = """
import sys
from tests.spark.loads import peak_of_build
print(peak_of_build(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])))
"""


@pytest.mark.spark
@pytest.mark.parametrize("value_bytes", [1000, 60])
def test_memory_is_bounded_by_the_setting_not_by_the_partition(tmp_path: Path, value_bytes: int) -> None:
    """A partition of 320 MB, built with 32 MB; and one of rows so small that what is known of a row counts."""
    memory = 32

    def peak(rows: int) -> int:
        folder = tmp_path / str(rows)
        folder.mkdir()
        run = [sys.executable, "-c", MEASURE, f"file://{folder}", str(rows), str(value_bytes), str(memory << 20)]
        return int(subprocess.run(run, capture_output=True, check=True, text=True, timeout=300).stdout) >> 10

    large = peak(320_000 if value_bytes == 1000 else 2_000_000)
    assert large - peak(1000) < 3 * memory
