"""A database as the commands see it: values that may have a time to live, read and written by units of work.

A unit is what one command does, or all commands of one EXEC. It reads one state and writes at once. A unit that only writes
is a plain write. One that reads before it writes becomes a transaction with its first read, and is begun anew by whoever
runs it if another write came in between: so an INCR counts every increment, and nobody waits for a lock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from itertools import count
from typing import NamedTuple, Protocol, TypeVar

from slate_engine.api.batch import WriteBatch
from slate_engine.api.choices import Ttl
from slate_engine.api.db import Db
from slate_engine.api.enums import DurabilityLevel, IsolationLevel, IterationOrder
from slate_engine.api.handle import WriteHandle
from slate_engine.api.iterator import DbIterator
from slate_engine.api.keys import KeyRange
from slate_engine.api.options import PutOptions, ScanOptions, WriteOptions
from slate_engine.api.reader import DbReader
from slate_engine.api.records import KeyValue
from slate_engine.api.transaction import DbTransaction
from slate_engine.errors import TransactionError
from slate_engine.lsm.row import Row
from slate_engine.lsm.snapshot import UNREAD, Unread
from slate_engine.runtime import Runtime

T = TypeVar("T")

_WRITE = WriteOptions()
_DEFAULT = PutOptions(ttl=Ttl.DEFAULT())
_FOREVER = PutOptions(ttl=Ttl.NO_EXPIRY())
_BATCH = 512
_STRETCH_BYTES = 64 << 10
"""So many bytes of keys are looked at before others have their turn: to compare a pattern with them takes long."""

STRETCH = 256
"""So many keys are dealt with before others have their turn: a command with a hundred thousand of them takes long."""

PATIENCE = 3
"""A unit that has lost so often does not let others have their turn in its midst any more, so it wins in the end."""


class Entry(NamedTuple):
    """A value, and when it ends, in milliseconds of the unix epoch."""

    key: bytes
    value: bytes
    expires_ms: int | None


class KeepDefault:
    """The time to live that the database gives to values of which nobody says anything."""


DEFAULT_TTL = KeepDefault()
Expiry = int | None | KeepDefault


class Readable(Protocol):
    """A database, a reader or a transaction."""

    def peek(self, key: bytes) -> Row | Unread | None: ...

    async def get_key_value(self, key: bytes) -> KeyValue | None: ...

    async def scan_with_options(self, range: KeyRange, options: ScanOptions) -> DbIterator: ...


class Unit(Protocol):
    """What a command works on."""

    written_bytes: int
    """Of values that are to be committed."""

    async def get(self, key: bytes) -> Entry | None: ...

    def each(self, keys: Sequence[bytes]) -> AsyncIterator[Entry | None]: ...

    def entries(self, start: bytes, end: bytes | None, *, descending: bool = False) -> AsyncIterator[Entry]: ...

    async def put(self, key: bytes, value: bytes, expires: Expiry = DEFAULT_TTL) -> None: ...

    async def delete(self, key: bytes) -> None: ...

    async def pause(self) -> None:
        """Let others have their turn."""
        ...


class _Reading:
    """Reads that never show what has expired."""

    def __init__(self, source: Readable, runtime: Runtime) -> None:
        self._source = source
        self._runtime = runtime

    def peek(self, key: bytes) -> Entry | Unread | None:
        """What :meth:`get` gives, at once, if it is in memory."""
        found = self._source.peek(key)
        if found is UNREAD or found is None:
            return found
        return self._unexpired(Entry(key, found.value, found.expires_ms))

    async def get(self, key: bytes) -> Entry | None:
        found = await self._source.get_key_value(key)
        return None if found is None else self._unexpired(Entry(key, found.value, found.expire_ts))

    def _unexpired(self, entry: Entry) -> Entry | None:
        return entry if entry.expires_ms is None or entry.expires_ms > self._runtime.now_ms() else None

    async def entries(self, start: bytes, end: bytes | None, *, descending: bool = False) -> AsyncIterator[Entry]:
        """The keys from ``start`` on and before ``end``. An empty key cannot exist, so an empty ``start`` is the first."""
        if end is not None and start >= end:
            return
        iterator = await self._source.scan_with_options(_range(start, end), _scan_options(descending))
        while rows := await iterator.next_some(_BATCH):
            now, looked_at = self._runtime.now_ms(), 0
            for row in rows:
                if row.expire_ts is None or row.expire_ts > now:
                    yield Entry(row.key, row.value, row.expire_ts)
                looked_at += len(row.key)
                if looked_at >= _STRETCH_BYTES:
                    looked_at = 0
                    await self.pause()
            await self.pause()

    async def pause(self) -> None:
        await self._runtime.sleep(0)


class ReadUnit(_Reading):
    """A command that only reads. Writes never get here: the command table says which commands write."""

    written_bytes = 0

    async def frozen(self) -> ReadUnit:
        """The same, at the state of this moment."""
        source = self._source
        return ReadUnit(await source.snapshot(), self._runtime) if isinstance(source, Db | DbReader) else self

    async def each(self, keys: Sequence[bytes]) -> AsyncIterator[Entry | None]:
        """What all of them are at one moment. What is in memory is read in one go, in which nobody writes; else a snapshot
        is needed, for while a block is fetched others do."""
        if len(keys) <= STRETCH:
            peeked = [self.peek(key) for key in keys]
            known = [entry for entry in peeked if entry is not UNREAD]
            if len(known) == len(peeked):
                for entry in known:
                    yield entry
                return
        frozen = await self.frozen()
        for number, key in enumerate(keys, 1):
            yield await frozen.get(key)
            if number % STRETCH == 0:
                await self.pause()

    async def put(self, key: bytes, value: bytes, expires: Expiry = DEFAULT_TTL) -> None:
        raise AssertionError("a command that is said to read only has written")

    async def delete(self, key: bytes) -> None:
        raise AssertionError("a command that is said to read only has written")


class WriteUnit:
    """Writes that are committed at once, and reads that see them."""

    def __init__(self, db: Db, runtime: Runtime, *, patient: bool = True) -> None:
        self._db = db
        self._runtime = runtime
        self._patient = patient
        self._writes: dict[bytes, tuple[bytes | None, Expiry]] = {}
        self._transaction: DbTransaction | None = None
        self.written_bytes = 0

    async def get(self, key: bytes) -> Entry | None:
        if key in self._writes:
            return self._own(key)
        return await _Reading(await self._begun(), self._runtime).get(key)

    def _own(self, key: bytes) -> Entry | None:
        """What the unit itself has made of a key."""
        value, expires = self._writes[key]
        if isinstance(expires, KeepDefault):
            default_ms = self._db.default_ttl_ms
            expires = None if default_ms is None else self._runtime.now_ms() + default_ms
        if value is None or (expires is not None and expires <= self._runtime.now_ms()):
            return None
        return Entry(key, value, expires)

    async def each(self, keys: Sequence[bytes]) -> AsyncIterator[Entry | None]:
        for number, key in enumerate(keys, 1):
            yield await self.get(key)
            if number % STRETCH == 0:
                await self.pause()

    async def pause(self) -> None:
        if self._patient:
            await self._runtime.sleep(0)

    async def entries(self, start: bytes, end: bytes | None, *, descending: bool = False) -> AsyncIterator[Entry]:
        async for entry in _Reading(await self._begun(), self._runtime).entries(start, end, descending=descending):
            # A write has no end before its commit, so the transaction shows it although it may be over already.
            seen = self._own(entry.key) if entry.key in self._writes else entry
            if seen is not None:
                yield seen

    async def put(self, key: bytes, value: bytes, expires: Expiry = DEFAULT_TTL) -> None:
        self._writes[key] = value, expires
        self.written_bytes += len(value)
        if self._transaction is not None:
            await self._transaction.put_with_options(key, value, _put_options(expires))

    async def delete(self, key: bytes) -> None:
        self._writes[key] = None, None
        if self._transaction is not None:
            await self._transaction.delete(key)

    async def lose_to_writes_of(self, keys: Iterable[bytes]) -> None:
        """Lose against others that write these keys, as if the unit had read them."""
        await (await self._begun()).mark_read(list(keys))

    async def _begun(self) -> DbTransaction:
        if self._transaction is None:
            self._transaction = await self._db.begin(IsolationLevel.SERIALIZABLE_SNAPSHOT)
            for key, (value, expires) in self._writes.items():
                if value is None:
                    await self._transaction.delete(key)
                else:
                    await self._transaction.put_with_options(key, value, _put_options(expires))
        return self._transaction

    async def commit(self) -> WriteHandle | None:
        """Everybody sees the writes from now on. Nothing is returned if there were none."""
        if self._transaction is not None:
            return await self._transaction.commit()
        if len(self._writes) == 1:
            [(key, (value, expires))] = self._writes.items()
            if value is None:
                return await self._db.delete(key)
            return await self._db.put_with_options(key, value, _put_options(expires), _WRITE)
        return await self._db.write(self._batch()) if self._writes else None

    def _batch(self) -> WriteBatch:
        batch = WriteBatch()
        for key, (value, expires) in self._writes.items():
            if value is None:
                batch.delete(key)
            else:
                batch.put_with_options(key, value, _put_options(expires))
        return batch

    async def abandon(self) -> None:
        if self._transaction is not None:
            await self._transaction.rollback()


class Watch:
    """Keys that a client has its eye on: whether one of them has changed since."""

    def __init__(self, db: Db, transaction: DbTransaction, runtime: Runtime) -> None:
        self._db = db
        self._transaction: DbTransaction | None = transaction
        self._runtime = runtime
        self._first_end_ms: int | None = None
        """When the first of the keys expires. Whoever lets one live longer writes it, which is noticed anyway."""
        self.began = runtime.monotonic()
        self.keys: set[bytes] = set()

    @classmethod
    async def begin(cls, db: Db, runtime: Runtime) -> Watch:
        return cls(db, await db.begin(IsolationLevel.SNAPSHOT), runtime)

    async def add(self, keys: Iterable[bytes]) -> None:
        new = set(keys) - self.keys
        self.keys |= new
        if self._transaction is not None:
            await self._transaction.mark_read(list(new))
        # Read after they are watched: what is written in between is noticed as a write.
        async for entry in ReadUnit(self._db, self._runtime).each(list(new)):
            if entry is not None and entry.expires_ms is not None:
                self._first_end_ms = min(entry.expires_ms, self._first_end_ms or entry.expires_ms)

    async def untouched(self) -> bool:
        """Whether nobody has written them by now, as far as is known: not if the watch was ended before its time. A key that
        has expired meanwhile has changed, too. The watch goes on: the next transaction begins before this one ends."""
        if self._transaction is None or self._some_have_expired():
            return False
        watched, self._transaction = self._transaction, await self._db.begin(IsolationLevel.SNAPSHOT)
        await self._transaction.mark_read(list(self.keys))
        try:
            await watched.commit()
        except TransactionError:
            return False
        return True

    def _some_have_expired(self) -> bool:
        return self._first_end_ms is not None and self._first_end_ms <= self._runtime.now_ms()

    async def end(self) -> None:
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            await transaction.rollback()


class Keyspace:
    """The keys of one database; ``db`` is None where they are only read."""

    def __init__(self, source: Db | DbReader, runtime: Runtime) -> None:
        self.source = source
        self.runtime = runtime
        self.db = source if isinstance(source, Db) else None
        self.reading = ReadUnit(source, runtime)
        """What all commands share that only read: it holds nothing."""

    async def write(
        self, work: Callable[[WriteUnit], Awaitable[T]], *, watch: Watch | None = None
    ) -> tuple[T, WriteHandle | None] | None:
        """Do ``work`` as one unit, again if it lost against another write. None if somebody wrote a watched key."""
        assert self.db is not None, "the command table refuses writes to a reader"
        for attempt in count():
            unit = WriteUnit(self.db, self.runtime, patient=attempt < PATIENCE)
            try:
                if watch is not None:
                    await unit.lose_to_writes_of(watch.keys)
                    # Asked after the unit began: from here on the unit itself loses against writes of these keys.
                    if not await watch.untouched():
                        await unit.abandon()
                        return None
                result = await work(unit)
            except BaseException:
                await unit.abandon()
                raise
            try:
                return result, await unit.commit()
            except TransactionError:
                continue
        raise AssertionError("one does not run out of attempts")

    async def watch(self) -> Watch:
        assert self.db is not None, "the command table refuses WATCH at a reader"
        return await Watch.begin(self.db, self.runtime)


def _put_options(expires: Expiry) -> PutOptions:
    if isinstance(expires, KeepDefault):
        return _DEFAULT
    return _FOREVER if expires is None else PutOptions(ttl=Ttl.EXPIRE_AT_MILLIS(expires))


def _range(start: bytes, end: bytes | None) -> KeyRange:
    return KeyRange(start=start or None, start_inclusive=True, end=end, end_inclusive=False)


def _scan_options(descending: bool) -> ScanOptions:
    return ScanOptions(
        durability_filter=DurabilityLevel.MEMORY,
        dirty=False,
        read_ahead_bytes=1,
        cache_blocks=True,
        max_fetch_tasks=4,
        order=IterationOrder.DESCENDING if descending else IterationOrder.ASCENDING,
    )
