"""A database as the commands see it: values that may have a time to live, read and written by units of work.

A unit is what one command does, or all commands of one EXEC. It reads one state and writes at once. A unit that only writes
is a plain write. One that reads before it writes becomes a transaction with its first read, and is begun anew by whoever
runs it if another write came in between: so an INCR counts every increment, and nobody waits for a lock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
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
from slate_engine.runtime import Runtime

T = TypeVar("T")

_WRITE = WriteOptions()
_DEFAULT = PutOptions(ttl=Ttl.DEFAULT())
_FOREVER = PutOptions(ttl=Ttl.NO_EXPIRY())
_BATCH = 512


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

    async def get_key_value(self, key: bytes) -> KeyValue | None: ...

    async def scan_with_options(self, range: KeyRange, options: ScanOptions) -> DbIterator: ...


class Unit(Protocol):
    """What a command works on."""

    async def get(self, key: bytes) -> Entry | None: ...

    def entries(self, start: bytes, end: bytes | None, *, descending: bool = False) -> AsyncIterator[Entry]: ...

    async def put(self, key: bytes, value: bytes, expires: Expiry = DEFAULT_TTL) -> None: ...

    async def delete(self, key: bytes) -> None: ...


class _Reading:
    """Reads that never show what has expired."""

    def __init__(self, source: Readable, runtime: Runtime) -> None:
        self._source = source
        self._runtime = runtime

    async def get(self, key: bytes) -> Entry | None:
        found = await self._source.get_key_value(key)
        if found is None or (found.expire_ts is not None and found.expire_ts <= self._runtime.now_ms()):
            return None
        return Entry(found.key, found.value, found.expire_ts)

    async def entries(self, start: bytes, end: bytes | None, *, descending: bool = False) -> AsyncIterator[Entry]:
        """The keys from ``start`` on and before ``end``. An empty key cannot exist, so an empty ``start`` is the first."""
        if end is not None and start >= end:
            return
        iterator = await self._source.scan_with_options(_range(start, end), _scan_options(descending))
        while rows := await iterator.next_batch(_BATCH):
            now = self._runtime.now_ms()
            for row in rows:
                if row.expire_ts is None or row.expire_ts > now:
                    yield Entry(row.key, row.value, row.expire_ts)


class ReadUnit(_Reading):
    """A command that only reads. Writes never get here: the command table says which commands write."""

    async def put(self, key: bytes, value: bytes, expires: Expiry = DEFAULT_TTL) -> None:
        raise AssertionError("a command that is said to read only has written")

    async def delete(self, key: bytes) -> None:
        raise AssertionError("a command that is said to read only has written")


class WriteUnit:
    """Writes that are committed at once, and reads that see them."""

    def __init__(self, db: Db, runtime: Runtime) -> None:
        self._db = db
        self._runtime = runtime
        self._writes: dict[bytes, tuple[bytes | None, Expiry]] = {}
        self._transaction: DbTransaction | None = None

    async def get(self, key: bytes) -> Entry | None:
        own = self._writes.get(key)
        if own is None:
            return await _Reading(await self._begun(), self._runtime).get(key)
        value, expires = own
        if value is None or (isinstance(expires, int) and expires <= self._runtime.now_ms()):
            return None
        return Entry(key, value, expires if isinstance(expires, int) else None)

    async def entries(self, start: bytes, end: bytes | None, *, descending: bool = False) -> AsyncIterator[Entry]:
        async for entry in _Reading(await self._begun(), self._runtime).entries(start, end, descending=descending):
            yield entry

    async def put(self, key: bytes, value: bytes, expires: Expiry = DEFAULT_TTL) -> None:
        self._writes[key] = value, expires
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
    """Keys that a client has its eye on: whether somebody has written one of them since."""

    def __init__(self, db: Db, transaction: DbTransaction) -> None:
        self._db = db
        self._transaction = transaction
        self.keys: set[bytes] = set()

    @classmethod
    async def begin(cls, db: Db) -> Watch:
        return cls(db, await db.begin(IsolationLevel.SNAPSHOT))

    async def add(self, keys: Iterable[bytes]) -> None:
        self.keys.update(keys)
        await self._transaction.mark_read(list(self.keys))

    async def untouched(self) -> bool:
        """Whether nobody has written them by now. The watch goes on: the next transaction begins before this one ends."""
        watched, self._transaction = self._transaction, await self._db.begin(IsolationLevel.SNAPSHOT)
        await self._transaction.mark_read(list(self.keys))
        try:
            await watched.commit()
        except TransactionError:
            return False
        return True

    async def end(self) -> None:
        await self._transaction.rollback()


class Keyspace:
    """The keys of one database; ``db`` is None where they are only read."""

    def __init__(self, source: Db | DbReader, runtime: Runtime) -> None:
        self.source = source
        self.runtime = runtime
        self.db = source if isinstance(source, Db) else None

    def reading(self) -> ReadUnit:
        return ReadUnit(self.source, self.runtime)

    async def write(
        self, work: Callable[[WriteUnit], Awaitable[T]], *, watch: Watch | None = None
    ) -> tuple[T, WriteHandle | None] | None:
        """Do ``work`` as one unit, again if it lost against another write. None if somebody wrote a watched key."""
        assert self.db is not None, "the command table refuses writes to a reader"
        while True:
            unit = WriteUnit(self.db, self.runtime)
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

    async def watch(self) -> Watch:
        assert self.db is not None, "the command table refuses WATCH at a reader"
        return await Watch.begin(self.db)


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
