"""Nothing that was acknowledged is lost, whatever the schedule.

Writers, a garbage collector and a recovery run as processes of their own on one bucket without conditional writes. Every
call takes a while, some fail before or after they are carried out, some arrive minutes late, any process may stall for
hours between two calls, and writers die in the middle of a write. Each seed is another schedule, on virtual time. Then
the same with one safeguard taken out at a time: the check has to notice, or it proves nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.errors import InvalidError, UnavailableError
from slate_engine.store.boundary import Boundary, BoundaryMetrics
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.numbered import BoundaryAhead, NumberedObjects
from slate_engine.store.protocol import ObjectMeta, ObjectStore, StoreUnavailable
from slate_engine.store.retry import RetryingStore
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import Record, State
from slate_engine.store.two_phase.settled import Settled
from tests.share import share_of
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.store.two_phase.doubles import LyingStore, MemoryTransactions

HOUR = 3600.0
LONGEST = 1000 * HOUR
"""Stalls are hours long here, so a scenario takes days; one that takes longer than this never ends."""
SEEDS = 40
METRICS = BoundaryMetrics.of(CollectorRegistry())


class Slow:
    """A process's connection to a store: its calls take time, and between any two of them the process may stall."""

    def __init__(self, store: Any, runtime: SimulatedRuntime, failing: frozenset[str] = frozenset()) -> None:
        self._store = store
        self._runtime = runtime
        self._failing = failing
        self.calm = False

    @property
    def url(self) -> str:
        return str(self._store.url)

    async def list(self, prefix: str, **options: Any) -> AsyncIterator[list[Any]]:
        await self._pass()
        async for page in self._store.list(prefix, **options):
            yield page
            await self._pass()

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._store, name)

        async def call(*args: Any, **options: Any) -> Any:
            await self._pass()
            self._fail(name, 0.03)
            answer = await method(*args, **options)
            await self._pass()
            self._fail(name, 0.03)
            return answer

        return call

    def _fail(self, name: str, probability: float) -> None:
        if not self.calm and name in self._failing and self._runtime.uniform(0, 1) < probability:
            raise StoreUnavailable("connection broken", unknown_outcome=True)

    async def _pass(self) -> None:
        stalls = not self.calm and self._runtime.uniform(0, 1) < 0.01
        await self._runtime.sleep(self._runtime.uniform(0, 2 * HOUR if stalls else 0.05))


def faults() -> list[Fault]:
    writes = frozenset({"put", "copy"})
    return [
        Fault(Strike.LATE, writes, probability=0.03, seconds=600),
        Fault(Strike.LATE, writes, probability=0.03, seconds=5),
        Fault(Strike.BEFORE, probability=0.02),
        Fault(Strike.AFTER, probability=0.02),
    ]


class History:
    """What was acknowledged, and the check that every later reader sees it."""

    def __init__(self) -> None:
        self.acknowledged: list[bytes] = []

    def check(self, state: bytes, known: Iterable[bytes]) -> None:
        tokens = state.split()
        assert len(tokens) == len(set(tokens)), "a write was applied twice"
        missing = set(known) - set(tokens)
        assert not missing, f"acknowledged and lost: {sorted(missing)}"


class World:
    """One bucket and one table, and the processes on them. Subclasses take out a safeguard."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        self.runtime = runtime
        self.bucket = LyingStore(runtime, name="bucket")
        self.table = MemoryTransactions()
        self.history = History()
        self.connections: list[Slow] = []
        self.faulty: list[FaultyStore] = []

    def store(self) -> ObjectStore:
        self.faulty.append(FaultyStore(self.bucket, self.runtime, faults()))
        bucket = Slow(self.faulty[-1], self.runtime)
        table = Slow(self.table, self.runtime, frozenset({"get", "put_if_absent", "compare_and_set", "delete"}))
        self.connections += [bucket, table]
        retrying: Any = RetryingStore(bucket, self.runtime) if self.runtime.uniform(0, 1) < 0.5 else bucket  # type: ignore[arg-type]
        return self.two_phase(retrying, Settled(table, self.runtime))  # type: ignore[arg-type]

    def two_phase(self, bucket: ObjectStore, table: Settled) -> ObjectStore:
        return TwoPhaseStore(bucket, table, self.runtime)

    def boundary(self, store: ObjectStore) -> Boundary | None:
        return Boundary(store, "db", "manifest", self.runtime, metrics=METRICS)

    def manifests(self, store: ObjectStore) -> NumberedObjects:
        return NumberedObjects(store, "db/manifest", "manifest", self.boundary(store), self.runtime)

    async def writer(self, name: str, writes: int) -> None:
        manifests = self.manifests(self.store())
        for number in range(writes):
            token = f"{name}.{number}".encode()
            while True:
                known = list(self.history.acknowledged)
                try:
                    newest = await manifests.latest()
                    state = bytes(newest.data) if newest else b""
                    self.history.check(state, known)
                    if token in state.split():
                        break  # its outcome was unknown, and now it is not
                    write = manifests.create_next(newest.id if newest else 0, state + b" " + token)
                    dies = self.runtime.uniform(0, 1) < 0.1
                    await asyncio.wait_for(write, self.runtime.uniform(0, 1) if dies else None)
                    self.history.acknowledged.append(token)
                    break
                except TimeoutError:
                    manifests = self.manifests(self.store())  # the process died, and another takes its place
                except (UnavailableError, BoundaryAhead):
                    await self.runtime.sleep(self.runtime.uniform(0, 1))

    async def garbage_collector(self) -> None:
        manifests = NumberedObjects(
            store := self.store(),
            "db/manifest",
            "manifest",
            Boundary(store, "db", "manifest", self.runtime),
            self.runtime,
        )
        while True:
            try:
                entries = await manifests.list()
                if len(entries) > 1:
                    to = entries[-1].id - 1
                    await manifests.advance_boundary(to)
                    await manifests.delete([entry.id for entry in entries if entry.id <= to])
            except (UnavailableError, InvalidError):
                pass
            await self.runtime.sleep(self.runtime.uniform(0, 20))

    async def recovery(self) -> None:
        store = self.store()
        assert isinstance(store, TwoPhaseStore)
        while True:
            try:
                await store.recover()
                await store.collect(older_than=HOUR)
            except UnavailableError:
                pass
            await self.runtime.sleep(self.runtime.uniform(0, HOUR))

    async def run(self) -> None:
        await TwoPhaseStore(self.bucket, self.table, self.runtime).put("db/wal/1.sst", b"older than all that follows")
        await self.runtime.sleep(24 * HOUR)
        background = [asyncio.ensure_future(self.garbage_collector()), asyncio.ensure_future(self.recovery())]
        try:
            await asyncio.gather(*(self.writer(name, 6) for name in "abcd"))
        finally:
            for task in background:
                task.cancel()
        for connection in self.connections:
            connection.calm = True
        for faulty in self.faulty:
            await faulty.arrivals()
        store = TwoPhaseStore(self.bucket, self.table, self.runtime)
        await store.recover()
        newest = await self.manifests(store).latest()
        assert newest is not None
        self.history.check(bytes(newest.data), self.history.acknowledged)
        await self.runtime.sleep(24 * HOUR)
        await store.collect(older_than=HOUR)
        assert self.bucket.temporaries() == []
        assert {record.state for record in self.table.records.values()} <= {State.COMMITTED, State.INLINE}
        assert bytes((await store.get("db/manifest/" + f"{newest.id:020d}.manifest")).data) == bytes(newest.data)


def broken(kind: type[World], seed: int) -> bool:
    try:
        simulate(lambda runtime: kind(runtime).run(), seed)
    except AssertionError:
        return True
    return False


@pytest.fixture(autouse=True)
def _days_of_failures(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("tests.simulation.loop.LONGEST", LONGEST)
    logging.disable(logging.WARNING)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_lost(seed: int) -> None:
    simulate(lambda runtime: World(runtime).run(), seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_nothing_is_lost_in_thousands_of_schedules() -> None:
    for seed in range(SEEDS, SEEDS + share_of(3000)):
        simulate(lambda runtime: World(runtime).run(), seed)


class NoConditionalWrites(World):
    """The bucket as it is."""

    def two_phase(self, bucket: ObjectStore, table: Settled) -> ObjectStore:
        return bucket

    async def recovery(self) -> None:
        pass


class NoBoundaryCheck(World):
    """Writers that do not look at the boundary. (The collector still keeps it.)"""

    def boundary(self, store: ObjectStore) -> Boundary | None:
        return None


class NoReadThrough(World):
    """Readers that believe the bucket: what is not copied yet does not exist."""

    def two_phase(self, bucket: ObjectStore, table: Settled) -> ObjectStore:
        class Store(TwoPhaseStore):
            async def _read(self, key: str, read: Callable[[str], Any]) -> Any:
                return await read(key)

            async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
                async for page in bucket.list(prefix, start_after=start_after):
                    yield page

        return Store(bucket, table, self.runtime)


class RecordsByAge(World):
    """A collector that deletes the record of every old committed write."""

    async def recovery(self) -> None:
        while True:
            await self.runtime.sleep(self.runtime.uniform(0, 60))
            for record in list(self.table.records.values()):
                if record.state is State.COMMITTED:
                    await self.table.delete([record.destination])


class NotTheFirst(World):
    """A table whose insert overwrites."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        super().__init__(runtime)

        class Table(MemoryTransactions):
            async def put_if_absent(self, record: Record) -> Record | None:
                self.records[record.destination] = record
                return None

        self.table = Table()


@pytest.mark.parametrize("kind", [NoConditionalWrites, NoBoundaryCheck, NoReadThrough, RecordsByAge, NotTheFirst])
def test_a_missing_safeguard_is_noticed(kind: type[World]) -> None:
    assert any(broken(kind, seed) for seed in range(SEEDS))
