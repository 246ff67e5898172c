"""What the tests put in place of the world: a bucket that lies, a table in memory, a process that dies."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any

import pytest

from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import CREATE, OVERWRITE, Buffer, ObjectStore, PutMode
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import Record, State, is_staged


class LyingStore(MemoryStore):
    """Answers 200 to everything: it takes the condition of a write, and ignores it. Some S3 servers do just that."""

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await super().put(key, data, OVERWRITE, mark=mark)

    def temporaries(self) -> list[str]:
        return [key for key in self._keys if is_staged(key)]

    def snapshot(self) -> dict[str, bytes]:
        return {key: bytes(found.data) for key, (found, _) in self._objects.items()}


class MemoryTransactions:
    """A linearizable table in a dict, for tests that count steps or own the clock."""

    url = "memory-transactions://"

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    async def put_if_absent(self, record: Record) -> Record | None:
        standing = self.records.setdefault(record.destination, record)
        return None if standing is record else standing

    async def get(self, destination: str) -> Record | None:
        return self.records.get(destination)

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        standing = self.records.get(record.destination)
        if standing is None or standing.version != expected:
            return False
        self.records[record.destination] = record
        return True

    async def list(self, prefix: str, *, committed: bool) -> AsyncIterator[list[Record]]:
        yield [
            record
            for destination, record in sorted(self.records.items())
            if destination.startswith(prefix) and (record.state is State.COMMITTED) == committed
        ]

    async def delete(self, destinations: Iterable[str]) -> None:
        for destination in destinations:
            self.records.pop(destination, None)

    async def delete_version(self, record: Record) -> bool:
        standing = self.records.get(record.destination)
        if standing is None or standing.version != record.version:
            return False
        del self.records[record.destination]
        return True

    async def close(self) -> None:
        pass


class Crash(BaseException):
    """The process is gone. Not an ``Exception``: nothing in the code under test may tidy up after it."""


class Steps:
    """Every call that a process makes to the outside, counted over all its stores; after the ``crash_after``-th it dies."""

    def __init__(self, crash_after: int | None = None) -> None:
        self.taken: list[str] = []
        self._crash_after = crash_after

    def over(self, store: Any) -> Any:
        """``store``, with each of its calls a step."""
        return _Stepped(store, self)

    async def take(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if self._crash_after == 0:
            raise Crash("before the first step")
        try:
            return await call()
        finally:
            self.taken.append(name)
            if len(self.taken) == self._crash_after:
                raise Crash(name)


class _Stepped:
    def __init__(self, store: Any, steps: Steps) -> None:
        self._store = store
        self._steps = steps

    @property
    def url(self) -> str:
        return str(self._store.url)

    def list(self, prefix: str, **options: Any) -> AsyncIterator[list[Any]]:
        async def pages() -> AsyncIterator[list[Any]]:
            whole = await self._steps.take("list", lambda: self._whole(prefix, **options))
            for page in whole:
                yield page

        return pages()

    async def _whole(self, prefix: str, **options: Any) -> list[Any]:
        return [page async for page in self._store.list(prefix, **options)]

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)
        return lambda *args, **options: self._steps.take(name, lambda: method(*args, **options))


class Interleaved:
    """A store whose calls take a few turns of the event loop before and after they do their work, so that concurrent callers
    really interleave."""

    def __init__(self, store: Any, seed: int) -> None:
        self._store = store
        self._random = random.Random(seed)

    @property
    def url(self) -> str:
        return str(self._store.url)

    async def list(self, prefix: str, **options: Any) -> AsyncIterator[list[Any]]:
        await self._turns()
        async for page in self._store.list(prefix, **options):
            yield page

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        method = getattr(self._store, name)

        async def call(*args: Any, **options: Any) -> Any:
            await self._turns()
            try:
                return await method(*args, **options)
            finally:
                await self._turns()

        return call

    async def _turns(self) -> None:
        for _ in range(self._random.randrange(4)):
            await asyncio.sleep(0)


class Gate:
    """A store that lets one call wait until the test says go: a process that stalls at exactly that point."""

    def __init__(self, store: Any, call: str, number: int = 1) -> None:
        self._store = store
        self._call = call
        self._left = number
        self.reached = asyncio.Event()
        self.go = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name != self._call:
            return method

        async def wait(*args: Any, **options: Any) -> Any:
            self._left -= 1
            if self._left == 0:
                self.reached.set()
                await self.go.wait()
            return await method(*args, **options)

        return wait


class ManualRuntime:
    """Time stands still until somebody sleeps or sets it; chance comes from a seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)
        self.seconds = 1_700_000_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds

    async def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        await asyncio.sleep(0)

    def random_bytes(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    async def run(self, work: Callable[..., Any], *args: object) -> Any:
        return work(*args)


KEY = "db/manifest/00000000000000000007.manifest"
BOUNDARY = "db/gc/manifest.boundary"
DAY = 86_400.0


async def die_after(
    call: str, bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime, data: bytes
) -> None:
    """A writer of KEY that dies right after its first such call."""
    trace = Steps()
    await TwoPhaseStore(trace.over(LyingStore(clock, name="x")), trace.over(MemoryTransactions()), clock).put(
        KEY, data, CREATE
    )
    steps = Steps(crash_after=trace.taken.index(call) + 1)
    with pytest.raises(Crash):
        await TwoPhaseStore(steps.over(bucket), steps.over(table), clock).put(KEY, data, CREATE)


async def keys(store: ObjectStore, prefix: str = "", start_after: str = "") -> list[str]:
    return [meta.key async for page in store.list(prefix, start_after=start_after) for meta in page]
