"""One state of a database, to read from.

A snapshot is a frozen set of sources (rows in memory, and the levels of a manifest) and the sequence number up to which it
sees. Whatever a writer or a compactor does meanwhile, it gives the same answers, as long as nobody deletes its objects.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import pyarrow as pa

from slate_engine.format.arrow import COLUMNS, record_batch
from slate_engine.format.columns import EMPTY, I64, MERGE, TOMBSTONE, U64, Bytes, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL, UNBOUNDED, Bound, KeyRange
from slate_engine.lsm.cuts import cut_keys
from slate_engine.lsm.levels import Level, Levels
from slate_engine.lsm.order import take
from slate_engine.lsm.row import Row
from slate_engine.lsm.table import Table, block_span
from slate_engine.lsm.visible import MAX_SEQ, MergeOperator, fold, visible
from slate_engine.runtime import Runtime
from slate_engine.state.views import SstView

WINDOW_BYTES = 64 << 20
"""A scan loads the block indexes of so many bytes of tables at a time: one that is abandoned early loads few."""

GENTLE_PARTS = (64 << 10, 256 << 10, 1 << 20, 4 << 20, 8 << 20)
"""A row-by-row scan may stop after ten rows, so it begins with little and asks for more while it is wanted."""

LARGE_PARTS = (8 << 20,)
PARTS_AHEAD = 2

INLINE_BYTES = 2 << 20
"""Less than this is merged at once: handing it to a thread would take longer."""

Tables: TypeAlias = dict[Ulid, Table]


class Part(NamedTuple):
    """A range that is read at once, the tables that have rows in it, and about how many bytes it was to be."""

    keys: KeyRange
    tables: Tables
    size: int


class Unread(Enum):
    UNREAD = "not in memory"


UNREAD: Final = Unread.UNREAD
"""The answer to a question that only the store can answer."""


class InOrder(Protocol):
    """Rows in memory as sorted runs, as they were when a scan began."""

    def within(self, wanted: KeyRange) -> list[Rows]:
        """Those of a range, a batch for each run, the newest first."""
        ...

    def marks(self, wanted: KeyRange) -> Iterable[tuple[Bytes, I64]]:
        """Of each run, some keys of the range, and about how many bytes of rows there are from each to the next."""
        ...


class Memory(Protocol):
    """Rows that are not in an SST: a memtable, a replayed WAL."""

    def rows(self) -> Rows: ...

    def newest(self, key: bytes, max_seq: int) -> Row | None:
        """The newest version of ``key`` at or below ``max_seq``: all that most reads need."""
        ...

    def versions(self, key: bytes, max_seq: int) -> Iterable[Row]: ...

    async def in_order(self, runtime: Runtime | None) -> InOrder: ...


class _KeysOnly:
    """Stands in for a merge operator when nobody looks at the values."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return b""


@dataclass(frozen=True)
class Snapshot:
    """``memory`` comes newest first, and all of it is newer than the levels. Without a ``runtime`` all that a scan has to do
    is done on the event loop."""

    memory: tuple[Memory, ...]
    levels: Levels
    open_table: Callable[[SstView], Table]
    max_seq: int = MAX_SEQ
    operator: MergeOperator | None = None
    runtime: Runtime | None = field(default=None, kw_only=True)

    def at(self, seq: int) -> Snapshot:
        """The same state as it was seen at ``seq``."""
        return replace(self, max_seq=min(seq, self.max_seq))

    def peek(self, key: bytes) -> Row | Unread | None:
        """What a reader sees of ``key``, if that is in memory; ``UNREAD`` if something has to be read first."""
        versions: list[Row] = []
        for memory in self.memory:
            newest = memory.newest(key, self.max_seq)
            if newest is None:
                continue
            if not (versions or newest.flags & MERGE):
                return None if newest.flags & TOMBSTONE else newest
            if _reaches_base(versions, memory.versions(key, self.max_seq)):
                return self._resolved(key, versions)
        for view in self.levels.of_key(key):
            found = self.open_table(view).cached_versions(key, self.max_seq)
            if found is None:
                return UNREAD
            if found and _reaches_base(versions, found):
                break
        return self._resolved(key, versions)

    async def get(self, key: bytes, *, keep: bool = True) -> Row | None:
        """What a reader sees of ``key``: a value row, or nothing. ``keep`` leaves the blocks it read in the cache."""
        if (known := self.peek(key)) is not UNREAD:
            return known
        versions: list[Row] = []
        for memory in self.memory:
            if _reaches_base(versions, memory.versions(key, self.max_seq)):
                return self._resolved(key, versions)
        for view in self.levels.of_key(key):
            found = await self.open_table(view).versions(key, self.max_seq, keep=keep)
            if found and _reaches_base(versions, found):
                break
        return self._resolved(key, versions)

    def _resolved(self, key: bytes, versions: list[Row]) -> Row | None:
        if not versions or versions[0].flags & TOMBSTONE:
            return None
        if not versions[0].flags & MERGE:
            return versions[0]
        return fold(key, versions, self.operator)

    async def scan(
        self,
        wanted: KeyRange = ALL,
        *,
        values: bool = True,
        descending: bool = False,
        parts: Sequence[int] = GENTLE_PARTS,
        ahead: int = PARTS_AHEAD,
        prefix: bytes | None = None,
    ) -> AsyncGenerator[Rows, None]:
        """The visible rows of ``wanted`` in key order, some at a time; the next ``ahead`` parts are read while one is used.
        Without ``values`` they are neither decoded nor merged, and are empty. If all keys of ``wanted`` begin with
        ``prefix``, SSTs whose filters know of no such key are not read."""
        pending: deque[asyncio.Task[Rows]] = deque()
        # What comes into memory from now on is not for this scan: it has a sequence number that is not seen.
        memory = [await each.in_order(self.runtime) for each in self.memory]
        try:
            async with aclosing(self._parts(wanted, memory, descending, parts, prefix)) as planned:
                async for part in planned:
                    pending.append(asyncio.ensure_future(self._read(part, memory, values, descending)))
                    # To be ahead of what is in memory anyway is work that may not be wanted.
                    while len(pending) > (ahead if part.tables else 0):
                        rows = await pending.popleft()
                        if len(rows):
                            yield rows
            while pending:
                rows = await pending.popleft()
                if len(rows):
                    yield rows
        finally:
            for task in pending:
                task.cancel()

    async def scan_arrow(
        self, wanted: KeyRange = ALL, columns: Sequence[str] = COLUMNS, *, large: bool = True
    ) -> AsyncGenerator[pa.RecordBatch, None]:
        """The same as Arrow record batches; without ``value`` among the columns no value is read."""
        async with aclosing(self.scan(wanted, values="value" in columns, parts=LARGE_PARTS)) as batches:
            async for rows in batches:
                yield record_batch(rows, columns, large=large)

    async def _parts(
        self,
        wanted: KeyRange,
        memory: Sequence[InOrder],
        descending: bool,
        sizes: Sequence[int],
        prefix: bytes | None,
    ) -> AsyncGenerator[Part, None]:
        """``wanted`` cut into ranges of about these many bytes each, with the tables that have rows in them."""
        for window in _ordered(self._windows(wanted), descending):
            tables = {view.sst.id: self.open_table(view) for view in self._views(window)}
            if prefix is not None:
                tables = await _with_prefix(tables, prefix)
            maps = await asyncio.gather(*(table.blocks() for table in tables.values()))
            spans = [block_span(blocks, window) for blocks in maps]
            marks: list[tuple[Bytes, I64 | U64]] = [
                (blocks.first_keys.slice(*span), (blocks.ends - blocks.starts)[slice(*span)])
                for blocks, span in zip(maps, spans, strict=True)
            ]
            marks += [mark for each in memory for mark in each.marks(window)]
            cuts = cut_keys([keys for keys, _ in marks], [size for _, size in marks], sizes, backwards=descending)
            for number, keys in enumerate(_ordered(_between(window, cuts), descending)):
                yield Part(keys, tables, sizes[min(number, len(sizes) - 1)])

    def _views(self, wanted: KeyRange) -> list[SstView]:
        """The views in ``wanted``, from the newest level to the oldest."""
        return [view for level in self.levels.overlapping(wanted) for view in level.overlapping(wanted)]

    def _windows(self, wanted: KeyRange) -> list[KeyRange]:
        levels: list[Level] = self.levels.overlapping(wanted)
        cuts = cut_keys([level.lower_keys for level in levels], [level.sizes for level in levels], [WINDOW_BYTES])
        return list(_between(wanted, cuts))

    async def _read(self, part: Part, memory: Sequence[InOrder], values: bool, descending: bool) -> Rows:
        keys, tables, size = part
        views = [view for view in self._views(keys) if view.sst.id in tables]
        on_disk = await asyncio.gather(*(_read_view(view, tables[view.sst.id], keys, values) for view in views))
        if self.runtime is None or size < INLINE_BYTES:
            return self._seen(keys, memory, on_disk, values, descending)
        return await self.runtime.run(self._seen, keys, memory, on_disk, values, descending)

    def _seen(
        self, wanted: KeyRange, memory: Sequence[InOrder], on_disk: Sequence[Rows], values: bool, descending: bool
    ) -> Rows:
        in_memory = [rows for each in memory for rows in each.within(wanted)]
        if not values:
            in_memory = [_keys_of(rows) for rows in in_memory]
        rows = visible([*in_memory, *on_disk], self.max_seq, self.operator if values else _KeysOnly())
        return take(rows, np.arange(len(rows) - 1, -1, -1)) if descending else rows


async def _with_prefix(tables: Tables, prefix: bytes) -> Tables:
    """Those that may have a key that begins so."""
    may_have = await asyncio.gather(*(table.may_have_prefix(prefix) for table in tables.values()))
    return {id: table for (id, table), may in zip(tables.items(), may_have, strict=True) if may}


async def _read_view(view: SstView, table: Table, part: KeyRange, values: bool) -> Rows:
    seen = part if view.visible_range is None else view.visible_range.intersect(part)
    return EMPTY if seen is None else await table.rows_in(seen, values=values)


def _reaches_base(versions: list[Row], older: Iterable[Row]) -> bool:
    """Add older versions up to a value or a tombstone; whether there was one. Nothing below it matters."""
    for row in older:
        versions.append(row)
        if not row.flags & MERGE:
            return True
    return False


def _keys_of(rows: Rows) -> Rows:
    """The rows as a table gives them when no values are wanted: whoever scans keys never sees a value by accident."""
    return replace(rows, values=Bytes(np.empty(0, np.uint8), np.zeros(len(rows) + 1, np.int64)))


def _between(whole: KeyRange, cuts: Sequence[bytes]) -> Iterator[KeyRange]:
    """``whole`` cut at those of ``cuts`` that lie in it."""
    inside = [cut for cut in cuts if cut in whole and not (whole.start.bounded and cut == whole.start.key)]
    edges = [whole.start, *(Bound.included(cut) for cut in inside), UNBOUNDED]
    for start, after in pairwise(edges):
        yield KeyRange(start, Bound.excluded(after.key) if after is not UNBOUNDED else whole.end)


def _ordered(ranges: Iterable[KeyRange], descending: bool) -> Iterable[KeyRange]:
    return reversed(list(ranges)) if descending else ranges
