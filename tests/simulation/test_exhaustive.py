"""The boundary protocol and two-phase writes, in every order of their steps, with crashes and lost answers anywhere."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from unittest import mock

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.errors import InvalidError, UnavailableError
from slate_engine.store.boundary import Boundary, BoundaryMetrics
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import CREATE, Conflict, NotFound, ObjectStore
from slate_engine.store.retry import RetryingStore
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import State
from slate_engine.store.two_phase.settled import Settled
from tests.simulation import planted, planted_two_phase
from tests.simulation.exhaustive import Actor, Model, Objects, Stepping, at_once, explore_all
from tests.store.two_phase.doubles import ManualRuntime, MemoryTransactions

METRICS = BoundaryMetrics.of(CollectorRegistry())
FIRST = "db/manifest/00000000000000000001.manifest"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def manifests(store: ObjectStore, runtime: ManualRuntime) -> NumberedObjects:
    return NumberedObjects(
        store, "db/manifest", "manifest", Boundary(store, "db", "manifest", runtime, metrics=METRICS), runtime
    )


class Numbers(Model):
    """A writer that saw manifest 2, and sleeps since before there was a third; one that is awake, and commits; a collector.
    A manifest holds the names of all commits before it, so a lost one shows."""

    def prepare(self) -> None:
        self.runtime = ManualRuntime()
        self.bucket = Objects(self.runtime)
        self.promised: set[bytes] = set()
        self.newest_seen = 0
        asleep = ManualRuntime(1)
        self.sleeper = manifests(self._connection(asleep), asleep)
        self._fill()
        self.actors = {
            "sleeper": Actor(self._wake_up()),
            "writer": Actor(self._write(ManualRuntime(2))),
            "collector": Actor(self._collect(ManualRuntime(3))),
        }

    def _connection(self, runtime: ManualRuntime) -> ObjectStore:
        return RetryingStore(Stepping(self.bucket), runtime)  # type: ignore[arg-type]

    def _fill(self) -> None:
        async def fill() -> None:
            await self.bucket.put("db/wal/00000000000000000001.sst", b"older than all that follows")
            self.runtime.seconds += 60
            objects = manifests(RetryingStore(self.bucket, self.runtime), self.runtime)
            await objects.create_next(0, b"first")
            await objects.create_next(1, b"first second")
            await objects.create_next(2, b"first second third")

        _, error = at_once(fill)
        assert error is None, error

    async def _wake_up(self) -> None:
        try:
            await self.sleeper.create_next(2, b"first second sleeper")
            self.promised.add(b"sleeper")
        except (Conflict, UnavailableError):
            return

    async def _write(self, runtime: ManualRuntime) -> None:
        objects = manifests(self._connection(runtime), runtime)
        for _ in range(2):
            try:
                newest = await objects.latest()
                assert newest is not None
                if b"fourth" not in bytes(newest.data).split():
                    await objects.create_next(newest.id, bytes(newest.data) + b" fourth")
                self.promised.add(b"fourth")
                return
            except (Conflict, UnavailableError):
                continue

    async def _collect(self, runtime: ManualRuntime) -> None:
        objects = manifests(self._connection(runtime), runtime)
        try:
            entries = await objects.list()
            to = entries[-1].id - 1
            await objects.advance_boundary(to)
            await objects.delete([entry.id for entry in entries if entry.id <= to])
        except (UnavailableError, InvalidError):
            return

    def contents(self) -> object:
        found = {key: bytes(stored.data) for key, (stored, _) in self.bucket._objects.items()}
        return sorted(found.items()), sorted(self.promised), self.newest_seen

    def check(self) -> None:
        runtime = ManualRuntime()
        newest, error = at_once(lambda: manifests(RetryingStore(self.bucket, runtime), runtime).latest())
        assert error is None, error
        assert newest is not None
        assert newest.id >= self.newest_seen, f"the newest was {self.newest_seen} and is {newest.id}"
        self.newest_seen = newest.id
        missing = self.promised - set(bytes(newest.data).split())
        assert not missing, f"manifest {newest.id} is without {missing}, which was committed"


class Creators(Model):
    """Two who create one object on a bucket that takes every write; who loses helps the winner at once."""

    helpers: tuple[str, ...] = ()
    patience = -1.0

    def prepare(self) -> None:
        self.runtime = ManualRuntime()
        self.bucket = Objects(self.runtime, lies=True)
        self.table = MemoryTransactions()
        self.won: list[bytes] = []
        self.shown: bytes | None = None
        self.actors = {name: Actor(self._create(name.encode(), seed)) for seed, name in enumerate(("a", "b"))}
        self.actors |= {name: Actor(self._recover(seed)) for seed, name in enumerate(self.helpers, 2)}

    def _store(self, seed: int) -> TwoPhaseStore:
        runtime = ManualRuntime(seed)
        bucket = RetryingStore(Stepping(self.bucket), runtime)  # type: ignore[arg-type]
        table = Settled(Stepping(self.table), runtime)  # type: ignore[arg-type]
        return TwoPhaseStore(bucket, table, runtime, patience=self.patience)

    async def _create(self, data: bytes, seed: int) -> None:
        try:
            await self._store(seed).put(FIRST, data, CREATE)
            self.won.append(data)
        except (Conflict, UnavailableError):
            return

    async def _recover(self, seed: int) -> None:
        try:
            await self._store(seed).recover()
        except UnavailableError:
            return

    def contents(self) -> object:
        found = {key: bytes(stored.data) for key, (stored, _) in self.bucket._objects.items()}
        records = sorted((key, record.version, record.state) for key, record in self.table.records.items())
        return sorted(found.items()), records, self.won, self.shown

    def check(self) -> None:
        store = TwoPhaseStore(RetryingStore(self.bucket, self.runtime), self.table, self.runtime)
        assert len(self.won) <= 1, f"{self.won} both won"
        found, error = at_once(lambda: store.get(FIRST))
        shown = None if found is None else bytes(found.data)
        assert error is None or isinstance(error, NotFound), error
        assert self.shown in (None, shown), f"{self.shown!r} was there, and now {shown!r}"
        assert not self.won or shown == self.won[0], f"{self.won[0]!r} has won, and {shown!r} is there"
        self.shown = shown
        if all(actor.waits is None for actor in self.actors.values()):
            self._check_end(store, shown)

    def _check_end(self, store: TwoPhaseStore, shown: bytes | None) -> None:
        _, error = at_once(store.recover)
        assert error is None, error
        stored = self.bucket._objects.get(FIRST)
        assert (None if stored is None else bytes(stored[0].data)) == shown, "recovery did not bring it to its place"
        assert all(record.state is State.COMMITTED for record in self.table.records.values())


class Recovered(Creators):
    """The same, and a third one who finishes what others leave undone."""

    lost_answers = 0
    helpers = ("recovery",)
    patience = 10.0


class Boundaries(Model):
    """Two collectors that advance one boundary, where a table holds it."""

    def prepare(self) -> None:
        self.runtime = ManualRuntime()
        self.bucket = Objects(self.runtime, lies=True)
        self.table = MemoryTransactions()
        self.durable = 0
        self.actors = {
            "low": Actor(self._advance(3, 1)),
            "high": Actor(self._advance(5, 2)),
        }

    def _boundary(self, seed: int) -> Boundary:
        runtime = ManualRuntime(seed)
        bucket = RetryingStore(Stepping(self.bucket), runtime)  # type: ignore[arg-type]
        store = TwoPhaseStore(bucket, Settled(Stepping(self.table), runtime), runtime)  # type: ignore[arg-type]
        return Boundary(store, "db", "manifest", runtime, metrics=METRICS)

    async def _advance(self, to: int, seed: int) -> None:
        try:
            self.durable = max(self.durable, await self._boundary(seed).advance(to))
        except UnavailableError:
            return

    def contents(self) -> object:
        found = {key: bytes(stored.data) for key, (stored, _) in self.bucket._objects.items()}
        records = sorted((key, record.version, record.content) for key, record in self.table.records.items())
        return sorted(found.items()), records, self.durable

    def check(self) -> None:
        store = TwoPhaseStore(RetryingStore(self.bucket, self.runtime), self.table, self.runtime)
        value, error = at_once(lambda: Boundary(store, "db", "manifest", self.runtime, metrics=METRICS).read())
        assert error is None, error
        assert value is not None
        assert value >= self.durable, f"the boundary is {value}, and {self.durable} was durable"
        self.durable = value


class TakesBack(Objects):
    async def take_back(self, key: str) -> None:
        if "harmless" not in self._objects and key in self._objects:
            await self.delete([key])


class TakenBack(Model):
    """What was there is taken back, in one order of steps only, and from then on looks as if it had never been there."""

    lost_answers = 0

    def prepare(self) -> None:
        self.bucket = TakesBack(ManualRuntime())
        self.was_there = False
        store = Stepping(self.bucket)
        self.actors = {name: Actor(self._put(store, name)) for name in ("shown", "harmless")}
        self.actors["wrong"] = Actor(self._take_back(store))

    async def _put(self, store: Stepping, key: str) -> None:
        await store.put(key, b"")

    async def _take_back(self, store: Stepping) -> None:
        await store.take_back("shown")

    def contents(self) -> object:
        return sorted(self.bucket._objects), self.was_there

    def check(self) -> None:
        is_there = "shown" in self.bucket._objects
        assert is_there or not self.was_there, "it was there, and is gone"
        self.was_there = is_there


def test_what_was_seen_on_the_way_counts() -> None:
    """Also where a schedule is only played again to come to another one."""
    with pytest.raises(AssertionError, match="it was there, and is gone"):
        explore_all(TakenBack)


@pytest.mark.parametrize(
    ("model", "states"), [(Numbers, 1000), (Creators, 1000), (Recovered, 1000), (Boundaries, 1000)]
)
def test_every_order_of_steps(model: Callable[[], Model], states: int) -> None:
    explored = explore_all(model)
    assert explored.states > states, f"{explored} shows nothing"
    assert explored.ends > 10


def deleted_before_it_is_given_up() -> AbstractContextManager[object]:
    """A collector that deletes first, and then says so."""

    async def delete_all(self: NumberedObjects, to: int) -> int:
        await self._store.delete([self.key(id) for id in range(1, to + 1)])
        assert self._boundary is not None
        return await self._boundary.advance(to)

    return mock.patch.object(NumberedObjects, "advance_boundary", delete_all)


@pytest.mark.parametrize(
    ("switch", "model"),
    [
        (planted.boundary_not_looked_at, Numbers),
        (deleted_before_it_is_given_up, Numbers),
        (planted.lost_answer_counts_as_success, Numbers),
        (planted_two_phase.readers_believe_the_bucket, Creators),
        (planted_two_phase.committed_before_it_is_copied, Creators),
        (planted_two_phase.everybody_wins, Creators),
    ],
)
def test_it_notices(switch: Callable[[], AbstractContextManager[object]], model: Callable[[], Model]) -> None:
    with switch(), pytest.raises(AssertionError, match=r"(?s)after\n  \w+: "):
        explore_all(model, most=20_000)
