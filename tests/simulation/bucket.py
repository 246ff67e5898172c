"""The bucket of a simulated world: one in memory, and whatever changes in what it shows is looked at by an inspector.

Without conditional writes it takes the condition of a write, ignores it, and answers that all went well, as some services
do. Then what counts is decided by the records of a table beside it: a write that is recorded and not copied to its place yet
is there, for all who go by the records.
"""

from __future__ import annotations

from collections.abc import Iterable

from slate_engine.runtime import Runtime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Attributes, Buffer, PutMode
from slate_engine.store.two_phase.record import Record, State, is_staged
from tests.simulation.inspector import Inspector
from tests.store.two_phase.doubles import MemoryTransactions


class Bucket(MemoryStore):
    def __init__(self, runtime: Runtime, inspector: Inspector) -> None:
        super().__init__(runtime)
        self.table: Records | None = None
        self._inspector = inspector
        self._told: dict[str, bytes] = {}
        """What the inspector knows, where a table decides."""

    def without_conditions(self) -> None:
        """From here on it takes every write."""
        self.table = Records(self)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await super().put(key, data, mode if self.table is None else OVERWRITE, mark=mark)

    async def delete(self, keys: Iterable[str]) -> None:
        gone = [key for key in keys if key in self._objects]
        await super().delete(gone)
        for key in gone:
            self._changed(key)

    def _store(self, key: str, data: Buffer, mark: str, attributes: Attributes = ()) -> str:
        etag = super()._store(key, data, mark, attributes)
        self._changed(key)
        return etag

    def _changed(self, key: str) -> None:
        if self.table is None:
            self._tell(key, self._held(key))
        elif is_staged(key):
            for record in self.table.records.values():
                if self._key(record.source) == key:
                    self.decided(record.destination)
        else:
            self.decided(key)

    def decided(self, name: str) -> None:
        """The bucket or a record has changed: the inspector hears of it if that makes a difference."""
        key = self._key(name)
        now = self._counts(key)
        if now == self._told.get(key):
            return
        if now is None:
            del self._told[key]
        else:
            self._told[key] = now
        self._tell(key, now)

    def _tell(self, key: str, data: bytes | None) -> None:
        if data is None:
            self._inspector.deleted(key)
        else:
            self._inspector.stored(key, data)

    def counted(self) -> dict[str, bytes]:
        """The objects as those see them who go by the records, if there are any."""
        recorded = [] if self.table is None else [self._key(name) for name in self.table.records]
        keys = {*(key for key in self._objects if not is_staged(key)), *recorded}
        found = {key: self._counts(key) for key in sorted(keys)}
        return {key: data for key, data in found.items() if data is not None}

    def _counts(self, key: str) -> bytes | None:
        record = None if self.table is None else self.table.records.get(self.url + key)
        if record is not None:
            if record.state is State.DELETED:
                return None
            if record.state is State.PENDING and (staged := self._held(self._key(record.source))) is not None:
                return staged
            if record.content is not None:
                return record.content
        return self._held(key)

    def _held(self, key: str) -> bytes | None:
        return bytes(self._objects[key][0].data) if key in self._objects else None

    def _key(self, name: str) -> str:
        return name.removeprefix(self.url)


class Records(MemoryTransactions):
    """The table, which tells its bucket of every change."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__()
        self._bucket = bucket

    async def put_if_absent(self, record: Record) -> Record | None:
        standing = await super().put_if_absent(record)
        self._bucket.decided(record.destination)
        return standing

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        done = await super().compare_and_set(record, expected=expected)
        self._bucket.decided(record.destination)
        return done

    async def delete(self, destinations: Iterable[str]) -> None:
        gone = list(destinations)
        await super().delete(gone)
        for destination in gone:
            self._bucket.decided(destination)

    async def delete_version(self, record: Record) -> bool:
        done = await super().delete_version(record)
        self._bucket.decided(record.destination)
        return done
