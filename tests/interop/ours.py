"""Our side of a comparison: every way to read a snapshot, held against the rows that it must give."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

from slate_engine.format.columns import HAS_EXPIRE
from slate_engine.format.key_range import ALL, UNBOUNDED, Bound, KeyRange
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from slate_engine.store.protocol import ObjectStore
from tests.interop.history import Concat, Row
from tests.interop.style import Style

T = TypeVar("T")

RUNTIME = SystemRuntime(threads=2)


def folder_store(folder: Path) -> ObjectStore:
    return open_store(f"file://{folder}", runtime=RUNTIME)


def database(store: ObjectStore, path: str, style: Style) -> DatabaseFiles:
    return DatabaseFiles(store, path, RUNTIME, Concat(), style.sst.filters)


def as_row(row: tuple[bytes, bytes, int, int, int, int]) -> Row:
    key, value, seq, flags, create_ts, expire_ts = row
    return Row(key, value, seq, create_ts, expire_ts if flags & HAS_EXPIRE else None)


async def scan(snapshot: Snapshot, keys: KeyRange = ALL, *, descending: bool = False, values: bool = True) -> list[Row]:
    return [
        as_row(row) async for rows in snapshot.scan(keys, descending=descending, values=values) for row in rows.tuples()
    ]


async def get(snapshot: Snapshot, key: bytes) -> Row | None:
    found = await snapshot.get(key)
    return None if found is None else as_row(found)


async def check(snapshot: Snapshot, expected: list[Row], absent: Iterable[bytes] = ()) -> None:
    """A snapshot gives exactly these rows, whichever way it is asked."""
    assert brief(await scan(snapshot)) == brief(expected)
    assert brief(await scan(snapshot, descending=True)) == brief(expected[::-1])
    bare = [row._replace(value=b"") for row in expected]
    assert brief(await scan(snapshot, values=False)) == brief(bare)
    await _check_arrow(snapshot, expected)
    for keys in some_ranges([row.key for row in expected]):
        inside = [row for row in expected if row.key in keys]
        assert brief(await scan(snapshot, keys)) == brief(inside), keys
        assert brief(await scan(snapshot, keys, descending=True)) == brief(inside[::-1]), keys
    for row in every(expected, 200):
        found = await get(snapshot, row.key)
        assert found is not None
        assert brief([found]) == brief([row])
    present = {row.key for row in expected}
    for key in [*absent, *near([row.key for row in every(expected, 50)])]:
        if key not in present:
            assert await get(snapshot, key) is None, key


async def _check_arrow(snapshot: Snapshot, expected: list[Row]) -> None:
    batches = [batch async for batch in snapshot.scan_arrow()]
    table = pa.Table.from_batches(batches).to_pydict() if batches else {"key": [], "value": [], "seq": []}
    assert table["key"] == [row.key for row in expected]
    assert table["value"] == [row.value for row in expected]
    assert table["seq"] == [row.seq for row in expected]
    if expected:
        # A row without a creation time is 0 in the row API of the original; Arrow can say that it has none.
        assert [ts or 0 for ts in table["create_ts"]] == [row.create_ts for row in expected]
        assert table["expire_ts"] == [row.expire_ts for row in expected]


def some_ranges(keys: list[bytes]) -> list[KeyRange]:
    """Ranges with all kinds of bounds: at keys, between keys, before the first and after the last."""
    if not keys:
        return [KeyRange.half_open(b"a", b"b")]
    low, middle, high = keys[len(keys) // 4], keys[len(keys) // 2], keys[-1]
    starts = [UNBOUNDED, Bound.included(low), Bound.excluded(low)]
    ends = [UNBOUNDED, Bound.included(middle), Bound.excluded(middle)]
    mixed = [KeyRange(start, end) for start, end in itertools.product(starts, ends)]
    others = [
        KeyRange.closed(middle, middle),
        KeyRange.half_open(middle + b"\0", high),
        KeyRange.half_open(high + b"\0", None),
        KeyRange.half_open(None, keys[0]),
        KeyRange.of_prefix(low[:1]),
    ]
    return [keys for keys in [*mixed, *others] if not keys.is_empty]


def near(keys: Iterable[bytes]) -> list[bytes]:
    """Keys that are almost these."""
    return [near for key in keys for near in (key + b"\0", key[:-1] or b"\0")]


def every(items: list[T], most: int) -> list[T]:
    """About ``most`` of many, spread evenly."""
    return items[:: max(len(items) // most, 1)]


def brief(rows: list[Row]) -> list[tuple[object, ...]]:
    """Rows whose long keys and values are stood for by a digest, so that a difference can be read."""
    return [(_brief(row.key), _brief(row.value), *row[2:]) for row in rows]


def _brief(data: bytes) -> bytes | tuple[bytes, int, int]:
    return data if len(data) <= 40 else (data[:20], len(data), hash(data))
