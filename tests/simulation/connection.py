"""The stores of a database as one process sees them, each at the end of a :class:`~tests.simulation.network.Wire`."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import replace

from slate_engine.store.backend import Signed
from slate_engine.store.memory import PAGE, MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, PutMode
from slate_engine.store.two_phase.record import Record
from tests.simulation.network import Wire
from tests.store.two_phase.doubles import MemoryTransactions


class Connection:
    """The bucket as one process sees it: a :class:`~slate_engine.store.backend.Backend`."""

    def __init__(self, bucket: MemoryStore, wire: Wire) -> None:
        self._bucket = bucket
        self._wire = wire

    @property
    def url(self) -> str:
        return self._bucket.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._wire.call("get", key, lambda: self._bucket.get(key, if_none_match=if_none_match))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._wire.call("get_ranges", key, lambda: self._bucket.get_ranges(key, ranges))

    async def head(self, key: str) -> ObjectMeta:
        return await self._wire.call("head", key, lambda: self._bucket.head(key))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await self._wire.call("put", key, lambda: self._bucket.put(key, data, mode, mark=mark))

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        # What was uploaded of a torn one shows nowhere: an object is there as a whole, or it is not.
        whole = b"".join([bytes(chunk) async for chunk in chunks])
        await self._wire.upload(key)
        return await self._wire.call("put_stream", key, lambda: self._bucket.put(key, whole, mark=mark))

    async def read_mark(self, key: str) -> Signed:
        return await self._wire.call("read_mark", key, lambda: self._bucket.read_mark(key))

    async def copy(self, source: str, destination: str) -> None:
        await self._wire.call("copy", destination, lambda: self._bucket.copy(source, destination))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # Each page is a request of its own, so that a listing can break in the middle.
        after = start_after
        while True:
            page = await self._wire.call("list", prefix, lambda after=after: self._page(prefix, after))
            if page:
                yield page
                after = page[-1].key
            if len(page) < PAGE:
                return

    async def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        await self._wire.call("delete", gone[0] if gone else "", lambda: self._bucket.delete(gone))

    async def close(self) -> None:
        """The connection ends with its process."""

    async def _page(self, prefix: str, after: str) -> list[ObjectMeta]:
        async for page in self._bucket.list(prefix, start_after=after):
            return page
        return []


class Table:
    """The transactional store: a :class:`~slate_engine.store.two_phase.transactions.TransactionStore`."""

    def __init__(self, table: MemoryTransactions, wire: Wire) -> None:
        self._table = table
        self._wire = wire

    @property
    def url(self) -> str:
        return self._table.url

    async def put_if_absent(self, record: Record) -> Record | None:
        # A copy each time, as it comes over a network: the table must not know by looks that it has met this one before.
        return await self._wire.call(
            "put_if_absent", record.destination, lambda: self._table.put_if_absent(replace(record))
        )

    async def get(self, destination: str) -> Record | None:
        return await self._wire.call("get_record", destination, lambda: self._table.get(destination))

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        return await self._wire.call(
            "compare_and_set", record.destination, lambda: self._table.compare_and_set(record, expected=expected)
        )

    async def list(self, prefix: str, *, committed: bool) -> AsyncIterator[list[Record]]:
        for page in await self._wire.call("list_records", prefix, lambda: self._pages(prefix, committed)):
            yield page

    async def delete(self, destinations: Iterable[str]) -> None:
        gone = list(destinations)
        await self._wire.call("delete_records", gone[0] if gone else "", lambda: self._table.delete(gone))

    async def delete_version(self, record: Record) -> bool:
        return await self._wire.call("delete_version", record.destination, lambda: self._table.delete_version(record))

    async def close(self) -> None:
        """The connection ends with its process."""

    async def _pages(self, prefix: str, committed: bool) -> list[list[Record]]:
        return [page async for page in self._table.list(prefix, committed=committed)]
