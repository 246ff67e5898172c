"""What every handle that one can read from offers: a database, a snapshot, a transaction, a reader."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from slate_engine.api import arguments
from slate_engine.api.arrow import record_batch_reader
from slate_engine.api.building import Unmade, instance
from slate_engine.api.enums import DurabilityLevel, IterationOrder
from slate_engine.api.iterator import DbIterator
from slate_engine.api.keys import KeyRange
from slate_engine.api.options import ReadOptions, ScanOptions
from slate_engine.api.ranges import engine_range, prefix_range
from slate_engine.api.records import KeyValue
from slate_engine.api.scanning import Renewal, Scan, Scannable, deleted
from slate_engine.errors import InvalidError
from slate_engine.format.arrow import COLUMNS, record_batch
from slate_engine.format.key_range import KeyRange as EngineRange
from slate_engine.lsm.row import Row
from slate_engine.lsm.snapshot import GENTLE_PARTS, LARGE_PARTS, PARTS_AHEAD, UNREAD, Unread
from slate_engine.store.protocol import NotFound

LARGEST_PART = 64 << 20
"""However far a scan is told to read ahead, it fetches no more than this at once."""


MOST_AHEAD = 16


class _Choices(NamedTuple):
    """What the options of a scan come to."""

    durable_only: bool = False
    descending: bool = False
    parts: tuple[int, ...] = GENTLE_PARTS
    ahead: int = PARTS_AHEAD


_DEFAULTS = _Choices()


class View(Scannable, Protocol):
    """One state of the database."""

    def peek(self, key: bytes) -> Row | Unread | None: ...

    async def get(self, key: bytes, *, keep: bool = True) -> Row | None: ...


class Readable(Unmade, ABC):
    """Reads, in terms of the state that a handle shows."""

    async def get(self, key: bytes) -> bytes | None:
        """The value of ``key``, or None if it has none."""
        row = await self._row(arguments.key(key))
        return None if row is None else row.value

    async def get_with_options(self, key: bytes, options: ReadOptions) -> bytes | None:
        row = await self._row_with_options(arguments.key(key), options)
        return None if row is None else row.value

    async def get_key_value(self, key: bytes) -> KeyValue | None:
        """The value of ``key`` with what is known of its writing, or None if it has none."""
        row = await self._row(arguments.key(key))
        return None if row is None else key_value(row)

    def peek(self, key: bytes) -> Row | Unread | None:
        """What ``get_key_value`` gives, at once, if it is in memory; ``UNREAD`` if something has to be read first. It is for
        a server, so it gives the engine's own row: to make a record of it takes as long as to pass it on."""
        found = self._view(False).peek(arguments.key(key))
        if found is not UNREAD:
            self._note_read(key)
        return found

    async def get_key_value_with_options(self, key: bytes, options: ReadOptions) -> KeyValue | None:
        row = await self._row_with_options(arguments.key(key), options)
        return None if row is None else key_value(row)

    async def scan(self, range: KeyRange) -> DbIterator:
        """The rows of ``range`` in the order of their keys."""
        return self._iterator(engine_range(range), None)

    async def scan_with_options(self, range: KeyRange, options: ScanOptions) -> DbIterator:
        return self._iterator(engine_range(range), options)

    async def scan_prefix(self, prefix: bytes, subrange: KeyRange) -> DbIterator:
        """The rows whose keys begin with ``prefix`` and go on with something in ``subrange``."""
        return self._iterator(prefix_range(prefix, subrange), None, bytes(prefix))

    async def scan_prefix_with_options(self, prefix: bytes, subrange: KeyRange, options: ScanOptions) -> DbIterator:
        return self._iterator(prefix_range(prefix, subrange), options, bytes(prefix))

    async def scan_arrow(self, range: KeyRange, columns: Sequence[str] | None = None) -> AsyncIterator[pa.RecordBatch]:
        """The rows of ``range`` as Arrow record batches of some megabytes each. ``columns`` are any of key, value, seq,
        create_ts and expire_ts; values that are not asked for are not read."""
        wanted, names = engine_range(range), COLUMNS if columns is None else tuple(columns)
        self._note_scan(wanted)
        view, renew = self._scanned(False)
        async for rows in Scan(view, LARGE_PARTS, values="value" in names, renew=renew).rows(wanted):
            yield record_batch(rows, names)

    def scan_arrow_reader(self, range: KeyRange, columns: Sequence[str] | None = None) -> pa.RecordBatchReader:
        """The same as a ``pyarrow.RecordBatchReader``, for libraries that take one. It waits for the event loop that this
        is called in, so it is read in another thread: ``await asyncio.to_thread(reader.read_all)``."""
        return record_batch_reader(self.scan_arrow(range, columns), columns)

    # --- what a handle says of itself ----------------------------------------------------------------------------

    @abstractmethod
    def _view(self, durable_only: bool) -> View:
        """The state that a point read sees. Raises if the handle is closed."""

    @abstractmethod
    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        """The state that a scan sees to its end; and how to see the same rows in newer objects, if there is a way."""

    async def _refresh(self) -> None:
        """Look for a newer state, if there can be one."""

    def _note_read(self, key: bytes) -> None:
        """A key is about to be read."""

    def _note_scan(self, wanted: EngineRange) -> None:
        """A range is about to be read."""

    # --- how it is read ------------------------------------------------------------------------------------------

    async def _row(self, key: bytes, durable_only: bool = False, keep: bool = True) -> Row | None:
        view = self._view(durable_only)
        self._note_read(key)
        try:
            return await view.get(key, keep=keep)
        except NotFound as gone:
            missing = gone
        # A compaction replaced an object and a collector deleted it, before we looked at the manifest again.
        await self._refresh()
        newer = self._view(durable_only)
        if newer is view:
            raise deleted(missing) from missing
        try:
            return await newer.get(key, keep=keep)
        except NotFound as gone:
            raise deleted(gone) from gone

    async def _row_with_options(self, key: bytes, options: ReadOptions) -> Row | None:
        wanted = instance(options, ReadOptions, "options")
        return await self._row(key, _durable_only(wanted.durability_filter), bool(wanted.cache_blocks))

    def _iterator(self, wanted: EngineRange, options: ScanOptions | None, prefix: bytes | None = None) -> DbIterator:
        chosen = _DEFAULTS if options is None else _choices(instance(options, ScanOptions, "options"))
        view, renew = self._scanned(chosen.durable_only)
        self._note_scan(wanted)
        scan = Scan(view, chosen.parts, chosen.descending, renew=renew, ahead=chosen.ahead, prefix=prefix or None)
        return DbIterator.of(scan, wanted)


def key_value(row: Row) -> KeyValue:
    return KeyValue(
        key=row.key,
        value=row.value,
        seq=row.seq,
        create_ts=row.create_ts,
        expire_ts=row.expires_ms,
    )


def _durable_only(level: DurabilityLevel) -> bool:
    if not isinstance(level, DurabilityLevel):
        raise ValueError(f"durability_filter must be a DurabilityLevel such as DurabilityLevel.MEMORY, not {level!r}")
    return level is DurabilityLevel.REMOTE


def _choices(options: ScanOptions) -> _Choices:
    order = options.order or IterationOrder.ASCENDING
    if not isinstance(order, IterationOrder):
        raise ValueError(f"order must be an IterationOrder such as IterationOrder.DESCENDING, not {order!r}")
    tasks = arguments.unsigned(options.max_fetch_tasks, "max_fetch_tasks")
    if tasks == 0:
        raise InvalidError("max_fetch_tasks must be greater than zero")
    ahead = min(arguments.unsigned(options.read_ahead_bytes, "read_ahead_bytes"), LARGEST_PART)
    parts = tuple(max(size, ahead) for size in GENTLE_PARTS)
    descending = order is IterationOrder.DESCENDING
    return _Choices(_durable_only(options.durability_filter), descending, parts, min(tasks, MOST_AHEAD))
