"""The versions of some keys in SSTs that need not be read through: by their filters, and block by block.

How much of an SST a key costs is known from its index before anything is read. So keys are taken in slices that cost about
as much as there is memory for, however many keys there are and however large their values.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slate_engine.format.columns import EMPTY, I64, Bytes, Rows
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.order import concat, point_span, take
from slate_engine.lsm.table import Table, cut, may_have
from slate_engine.state.views import SstView

T = TypeVar("T")

FEW_KEYS = 1000
"""The filters and indexes of all SSTs are asked for so many keys at once."""

GAP_BYTES = 64 << 10
"""A request of its own takes longer than so many bytes that nobody needs."""

FETCHES = 16


@dataclass(frozen=True)
class Place:
    """Where a view may hold some of the keys that are looked for: blocks ``[first, last)`` for each ``number``."""

    view: SstView
    table: Table
    numbers: I64
    first: I64
    last: I64
    start_bytes: I64
    end_bytes: I64

    def costs(self, keys: int) -> I64:
        """The bytes that each of the ``keys``, in their order, adds to what is read."""
        before = np.maximum.accumulate(np.append(np.int64(-GAP_BYTES - 1), self.end_bytes[:-1]))
        near = self.start_bytes - before <= GAP_BYTES
        added = np.maximum(self.end_bytes - np.where(near, before, self.start_bytes), 0)
        costs = np.zeros(keys, np.int64)
        costs[self.numbers] = added
        return costs

    def spans(self, keys: slice) -> Iterator[tuple[int, int]]:
        """The blocks to read for the keys with these numbers; what is close together is one request."""
        within = slice(*np.searchsorted(self.numbers, [keys.start, keys.stop]).tolist())
        bounds = (each[within].tolist() for each in (self.first, self.last, self.start_bytes, self.end_bytes))
        open_at, closed_at, end = 0, 0, 0
        for first, last, start_byte, end_byte in zip(*bounds, strict=True):
            if closed_at and start_byte - end > GAP_BYTES:
                yield open_at, closed_at
                closed_at = 0
            if not closed_at:
                open_at = first
            closed_at, end = max(closed_at, last), max(end, end_byte)
        if closed_at:
            yield open_at, closed_at


async def look_up(
    keys: pa.Array, views: Sequence[SstView], open_table: Callable[[SstView], Table], most_bytes: int
) -> AsyncIterator[tuple[pa.Array, list[Rows]]]:
    """Slices of ``keys`` (ascending), each with all versions of its keys that the views show, view by view."""
    if not views and len(keys):
        yield keys, []
        return
    sections = max((view.sst.info.index_len + view.sst.info.filter_len for view in views), default=0)
    slots = asyncio.Semaphore(max(1, min(FETCHES, most_bytes // max(sections, 1))))
    for start in range(0, len(keys), FEW_KEYS):
        some = keys.slice(start, FEW_KEYS)
        listed = some.to_pylist()
        places = await _gathered(slots, (_find(view, open_table, listed) for view in _near(views, listed)))
        by_view = {id(place.view): place for place in places if place is not None}
        costs = sum((place.costs(len(some)) for place in by_view.values()), np.zeros(len(some), np.int64))
        for part in _slices(costs, most_bytes):
            wanted = some[part]
            found = await _gathered(slots, (_read(place, part, wanted) for place in by_view.values()))
            rows = dict(zip(by_view, found, strict=True))
            yield wanted, [rows.get(id(view), EMPTY) for view in views]


def only(rows: Rows, keys: pa.Array) -> Rows:
    """The rows with one of these keys."""
    if not len(rows):
        return rows
    return take(rows, np.flatnonzero(np.asarray(pc.is_in(binary(rows.keys), value_set=keys))))


def binary(column: Bytes) -> pa.Array:
    """A column as Arrow has it, without a copy."""
    return pa.Array.from_buffers(
        pa.large_binary(),
        len(column),
        [None, pa.py_buffer(np.ascontiguousarray(column.offsets)), pa.py_buffer(column.data)],
    )


def _near(views: Sequence[SstView], keys: list[bytes]) -> Iterator[SstView]:
    """Those that reach into where the keys lie."""
    hull = KeyRange.closed(keys[0], keys[-1])
    return (view for view in views if view.key_range is not None and view.key_range.overlaps(hull))


async def _find(view: SstView, open_table: Callable[[SstView], Table], keys: list[bytes]) -> Place | None:
    """None if the view has none of the keys. Its index is read only if its filters do not say so."""
    shown = view.key_range
    numbers = [number for number, key in enumerate(keys) if shown is not None and key in shown]
    if not numbers:
        return None
    table = open_table(view)
    filters = await table.filters()
    numbers = [number for number in numbers if may_have(filters, keys[number])]
    if not numbers:
        return None
    blocks = await table.blocks()
    spans = np.array([point_span(blocks.first_keys, keys[number]) for number in numbers], np.int64)
    first, last = spans[:, 0], np.minimum(spans[:, 1], len(blocks))
    starts, ends = blocks.starts.astype(np.int64), blocks.ends.astype(np.int64)
    return Place(view, table, np.array(numbers, np.int64), first, last, starts[first], ends[last - 1])


async def _read(place: Place, part: slice, keys: pa.Array) -> Rows:
    found = [only(await place.table.rows(first, last), keys) for first, last in place.spans(part)]
    rows = concat([EMPTY, *found])
    return rows if place.view.visible_range is None else cut(rows, place.view.visible_range)


def _slices(costs: I64, most: int) -> Iterator[slice]:
    """Neighbours that cost ``most`` together, or a single one that costs more."""
    ends = np.cumsum(costs)
    start = 0
    while start < len(costs):
        spent = int(ends[start - 1]) if start else 0
        stop = max(int(np.searchsorted(ends, spent + most, side="right")), start + 1)
        yield slice(start, stop)
        start = stop


async def _gathered(slots: asyncio.Semaphore, work: Iterable[Awaitable[T]]) -> list[T]:
    async def one(each: Awaitable[T]) -> T:
        async with slots:
            return await each

    return list(await asyncio.gather(*map(one, work)))
