"""Scans, row by row or batch by batch."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Iterable
from itertools import pairwise, repeat

from slate_engine.api import arguments
from slate_engine.api.building import Unmade
from slate_engine.api.records import KeyValue
from slate_engine.api.scanning import Scan
from slate_engine.errors import Error, InvalidError
from slate_engine.format.columns import HAS_EXPIRE, Bytes, Rows
from slate_engine.format.key_range import Bound, KeyRange
from slate_engine.lsm.undisturbed import undisturbed

CHUNK = 4096
"""So many rows become objects at a time: few enough not to hold up the event loop."""


class DbIterator(Unmade):
    """The rows of a scan, in its order. Calls that overlap are answered one after the other.

    It shows the state in which the scan began, however long that is ago, and holds on to what keeps that state alive.
    """

    _scan: Scan
    _wanted: KeyRange
    _batches: AsyncIterator[Rows] | None
    _rows: Rows | None
    """The batch that is being handed out; its first ``_taken`` rows have been made into objects."""
    _taken: int
    _ready: list[KeyValue]
    _at: int
    _last_key: bytes | None
    """Of what has been handed out."""
    _reached: bytes | None
    """The last key that has been read."""
    _floor: bytes | None
    """Where a seek went beyond that."""
    _error: Error | None
    _lock: asyncio.Lock

    @classmethod
    def of(cls, scan: Scan, wanted: KeyRange) -> DbIterator:
        made = cls.__new__(cls)
        made._scan, made._wanted, made._batches = scan, wanted, scan.rows(wanted)
        made._rows, made._taken, made._ready, made._at = None, 0, [], 0
        made._last_key = made._reached = made._floor = made._error = None
        made._lock = asyncio.Lock()
        return made

    async def next(self) -> KeyValue | None:
        """The next row, or None after the last."""
        if self._at == len(self._ready) and not await self._more():
            return None
        row = self._ready[self._at]
        self._at += 1
        self._last_key = row.key
        return row

    async def next_batch(self, max: int) -> list[KeyValue]:
        """The next rows, at most ``max``; fewer only at the end."""
        wanted = arguments.unsigned(max, "max", 32)
        rows: list[KeyValue] = []
        try:
            while len(rows) < wanted and (self._at < len(self._ready) or await self._more()):
                taken = self._ready[self._at : self._at + wanted - len(rows)]
                self._at += len(taken)
                rows = taken if not rows else rows + taken
        except BaseException:
            # Whoever gives up waiting, or is told of an error, can still ask for what was there already.
            self._ready, self._at = rows + self._ready[self._at :], 0
            raise
        if rows:
            self._last_key = rows[-1].key
        return rows

    async def next_some(self, max: int) -> list[KeyValue]:
        """The next rows, at most ``max`` and only from what one part of the scan brought, so that large values do not pile
        up. None only at the end. For this engine's own use: the original has no such method."""
        if self._at == len(self._ready) and not await self._more():
            return []
        rows = self._ready[self._at : self._at + max]
        self._at += len(rows)
        self._last_key = rows[-1].key
        return rows

    async def seek(self, key: bytes) -> None:
        """Go on with the first row whose key is at least ``key``, which lies ahead."""
        wanted = arguments.key(key)
        self._check()
        if self._scan.descending:
            raise InvalidError(
                "Invalid error: seek is not supported for descending scans; begin another scan at the key"
            )
        if wanted not in self._wanted:
            raise InvalidError(
                f"Invalid error: cannot seek to a key outside the iterator range. key=`{wanted!r}`: begin another scan"
            )
        if self._last_key is not None and wanted <= self._last_key:
            raise InvalidError(
                "Invalid error: cannot seek to a key less than the last returned key; begin another scan to go back"
            )
        async with self._lock:
            self._skip_to(wanted)

    def _skip_to(self, key: bytes) -> None:
        """What is in memory is passed over there; if it all lies before ``key``, the scan begins anew behind it."""
        ready = self._ready
        if self._at < len(ready) and key <= ready[-1].key:
            self._at = bisect_left(ready, key, lo=self._at, key=lambda row: row.key)
            return
        self._at = len(ready)
        if self._rows is not None and self._taken < len(self._rows):
            keys = self._rows.keys
            if key <= keys[len(keys) - 1]:
                self._taken = bisect_left(range(len(keys)), key, lo=self._taken, key=lambda i: keys[i])
                return
        if self._batches is not None and (self._floor is None or self._floor < key):
            self._rows, self._floor = None, key
            self._batches = self._scan.rows(self._rest())

    async def _more(self) -> bool:
        """Make objects of the next rows; False at the end."""
        async with self._lock:
            while self._at == len(self._ready):
                self._check()
                if self._rows is not None and self._taken < len(self._rows):
                    if self._last_key is not None:
                        await _turn()  # who comes for more may come for a hundred thousand rows
                    chunk = self._rows.slice(self._taken, min(self._taken + CHUNK, len(self._rows)))
                    self._taken += len(chunk)
                    self._ready, self._at = key_values(chunk), 0
                elif self._batches is None:
                    return False
                else:
                    await self._fetch(self._batches)
        return True

    async def _fetch(self, batches: AsyncIterator[Rows]) -> None:
        self._rows, self._taken = None, 0
        try:
            self._rows = await anext(batches)
            self._reached = self._rows.keys[len(self._rows) - 1]
        except StopAsyncIteration:
            self._batches = None
        except asyncio.CancelledError:
            # It has ended the scan below, too, and the caller may only have been in a hurry.
            self._batches = self._scan.rows(self._rest())
            raise
        except Error as error:
            self._error = error

    def _rest(self) -> KeyRange:
        """What has not been read or passed over."""
        reached, floor = self._reached, self._floor
        if floor is not None and (reached is None or reached < floor):
            return KeyRange(Bound.included(floor), self._wanted.end)
        return self._wanted if reached is None else self._scan.beyond(self._wanted, reached)

    def _check(self) -> None:
        if self._error is not None:
            raise self._error.with_traceback(None)


async def _turn() -> None:
    """Let everybody else in the event loop go first."""
    turn = asyncio.Event()
    asyncio.get_running_loop().call_soon(turn.set)
    await turn.wait()


def key_values(rows: Rows) -> list[KeyValue]:
    """The rows as objects. This loop is what a scan by rows costs, so it makes them without the detour of keywords."""
    made: list[KeyValue] = []
    new, add = KeyValue.__new__, made.append
    expires: Iterable[int | None] = repeat(None, len(rows))
    if (has := rows.flags & HAS_EXPIRE).any():
        times = zip(rows.expire_ts.tolist(), has.tolist(), strict=True)
        expires = (time if flag else None for time, flag in times)
    columns = zip(
        items(rows.keys), items(rows.values), rows.seq.tolist(), rows.create_ts.tolist(), expires, strict=True
    )
    with undisturbed(len(rows)):
        for key, value, seq, created, expires_at in columns:
            row = new(KeyValue)
            row.key = key
            row.value = value
            row.seq = seq
            row.create_ts = created
            row.expire_ts = expires_at
            add(row)
    return made


def items(column: Bytes) -> list[bytes]:
    """A column as Python bytes: slices of one copy are several times as fast as a copy for each."""
    first = int(column.offsets[0])
    whole = column.data[first : int(column.offsets[-1])].tobytes()
    edges = (column.offsets - first).tolist()
    return [whole[start:end] for start, end in pairwise(edges)]
