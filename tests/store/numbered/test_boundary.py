"""The boundary file: its text, its cache, and that it only ever grows."""

from __future__ import annotations

import asyncio
import logging

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.errors import CorruptData, InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.boundary import MAX_ID, Boundary, BoundaryLost, BoundaryMetrics, parse
from slate_engine.store.cost import Request, Tally
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import CREATE, Conflict, NotFound, ObjectStore, StoreUnavailable, Update
from tests.store.two_phase.doubles import Interleaved, ManualRuntime

KEY = "db/gc/manifest.boundary"


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def boundary(store: MemoryStore, clock: ManualRuntime, registry: CollectorRegistry) -> Boundary:
    return Boundary(store, "db", "manifest", clock, metrics=BoundaryMetrics.of(registry))


def value(registry: CollectorRegistry, name: str, boundary: str = "manifest") -> float:
    return registry.get_sample_value(name, {"boundary": boundary}) or 0.0


async def durable(store: ObjectStore) -> bytes:
    return bytes((await store.get(KEY)).data)


async def test_never_written_is_zero(boundary: Boundary, store: MemoryStore) -> None:
    assert await boundary.read() == 0
    assert await boundary.advance(0) == 0
    with pytest.raises(NotFound):
        await store.get(KEY)


async def test_advances(boundary: Boundary, store: MemoryStore) -> None:
    for to in (1, 7, MAX_ID):
        assert await boundary.advance(to) == to
        assert await durable(store) == str(to).encode()
        assert await boundary.read() == to


async def test_never_goes_back(boundary: Boundary, store: MemoryStore) -> None:
    await boundary.advance(9)
    for to in (0, 8, 9):
        assert await boundary.advance(to) == 9
    assert await durable(store) == b"9"


@pytest.mark.parametrize("to", [-1, MAX_ID + 1])
async def test_takes_ids_only(boundary: Boundary, to: int) -> None:
    with pytest.raises(InvalidError):
        await boundary.advance(to)


def test_root_of_the_store(store: MemoryStore, clock: ManualRuntime) -> None:
    assert Boundary(store, "", "compactions", clock).key == "gc/compactions.boundary"


@pytest.mark.parametrize(
    ("text", "number"),
    [(b"0", 0), (b"12", 12), (b" 12\n", 12), (b"\t007\r\n", 7), (b"+5", 5), (str(MAX_ID).encode(), MAX_ID)],
)
def test_text(text: bytes, number: int) -> None:
    assert parse(text, KEY) == number


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"x",
        b"-1",
        b"1 2",
        b"1.0",
        b"0x10",
        b"1_000",
        b"1\x00",
        "١٢".encode(),
        b"\xff",
        str(MAX_ID + 1).encode(),
        b"9" * 5000,
        b" " * 5000 + b"1",
    ],
)
async def test_malformed_text_names_the_object(text: bytes, boundary: Boundary, store: MemoryStore) -> None:
    await store.put(KEY, text)
    with pytest.raises(CorruptData) as caught:
        await boundary.read()
    assert caught.value.object == KEY
    assert len(str(caught.value)) < 400


async def test_an_unchanged_one_is_read_by_condition(boundary: Boundary, store: MemoryStore) -> None:
    await boundary.advance(3)
    asked: list[str | None] = []
    real = store.get

    async def get(key: str, *, if_none_match: str | None = None) -> object:
        asked.append(if_none_match)
        return await real(key, if_none_match=if_none_match)

    store.get = get  # type: ignore[method-assign, assignment]
    etag = (await store.head(KEY)).etag
    assert await boundary.read() == 3
    assert asked == [etag]
    await store.put(KEY, b"5")
    assert await boundary.read() == 5


async def test_missing_after_it_was_seen_is_an_error(boundary: Boundary, store: MemoryStore) -> None:
    await boundary.advance(3)
    await store.delete([KEY])
    with pytest.raises(BoundaryLost, match="missing") as caught:
        await boundary.read()
    assert KEY in str(caught.value)
    with pytest.raises(BoundaryLost):
        await boundary.advance(10)
    with pytest.raises(NotFound):
        await store.get(KEY)


async def test_smaller_than_it_was_seen_is_an_error(boundary: Boundary, store: MemoryStore) -> None:
    await boundary.advance(30)
    await store.put(KEY, b"29")
    for call in (boundary.read(), boundary.advance(31)):
        with pytest.raises(BoundaryLost, match=r"30.*29"):
            await call
    assert await durable(store) == b"29"


async def test_answers_that_overtake_each_other(store: MemoryStore, clock: ManualRuntime) -> None:
    """An old answer that arrives after a newer one is old, not a boundary that went back."""
    slow = asyncio.Event()

    class Slow(MemoryStore):
        async def get(self, key: str, *, if_none_match: str | None = None) -> object:  # type: ignore[override]
            found = await store.get(key, if_none_match=if_none_match)
            if bytes(found.data) == b"1":
                await slow.wait()
            return found

    shared = Boundary(Slow(clock), "db", "manifest", clock, metrics=BoundaryMetrics.of(CollectorRegistry()))
    await store.put(KEY, b"1")
    first = asyncio.create_task(shared.read())
    await asyncio.sleep(0)
    await store.put(KEY, b"2")
    assert await shared.read() == 2
    slow.set()
    assert await first == 2


async def test_many_advance_at_once() -> None:
    runtime = SystemRuntime()
    inner = MemoryStore(runtime)
    watched: list[int] = []
    real = inner.put

    async def put(*args: object, **options: object) -> str:
        etag = await real(*args, **options)  # type: ignore[arg-type]
        watched.append(int(bytes((await inner.get(KEY)).data)))
        return etag

    inner.put = put  # type: ignore[method-assign, assignment]
    boundaries = [Boundary(Interleaved(inner, seed), "db", "manifest", runtime) for seed in range(8)]
    goals = list(range(1, 65))
    runtime_random = ManualRuntime(7)
    goals.sort(key=lambda _: runtime_random.uniform(0, 1))
    reached = await asyncio.gather(*(boundaries[n % 8].advance(to) for n, to in enumerate(goals)))
    assert all(now >= to for now, to in zip(reached, goals, strict=True))
    assert await durable(inner) == b"64"
    assert watched == sorted(set(watched)), "it only ever grew"


@pytest.mark.parametrize("strike", [Strike.BEFORE, Strike.AFTER])
async def test_a_lost_answer_is_settled_by_reading(
    strike: Strike,
    store: MemoryStore,
    clock: ManualRuntime,
    registry: CollectorRegistry,
    caplog: pytest.LogCaptureFixture,
) -> None:
    faulty = FaultyStore(store, clock, [Fault(strike, frozenset({"put"}), calls=frozenset({1, 2}))])
    boundary = Boundary(faulty, "db", "manifest", clock, metrics=BoundaryMetrics.of(registry))
    assert await boundary.advance(4) == 4
    assert await boundary.advance(5) == 5
    assert await durable(store) == b"5"
    assert "trying again" in caplog.text


async def test_gives_up_after_a_while_and_says_what_may_not_be_deleted(
    store: MemoryStore, clock: ManualRuntime, registry: CollectorRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    await store.put(KEY, b"2", CREATE)
    faulty = FaultyStore(store, clock, [Fault(Strike.BEFORE, frozenset({"put"}), probability=1.0)])
    boundary = Boundary(faulty, "db", "manifest", clock, metrics=BoundaryMetrics.of(registry), advance_timeout=30)
    started = clock.monotonic()
    with pytest.raises(StoreUnavailable, match="delete nothing above 2"):
        await boundary.advance(9)
    assert 30 <= clock.monotonic() - started < 60
    assert [record.levelno for record in caplog.records].count(logging.WARNING) >= 10


async def test_a_store_that_refuses_for_good_ends_it_at_once(store: MemoryStore, clock: ManualRuntime) -> None:
    def refusal(key: str) -> Exception:
        return StoreUnavailable("read-only", retryable=False)

    faulty = FaultyStore(store, clock, [Fault(Strike.BEFORE, frozenset({"put"}), probability=1.0, error=refusal)])
    with pytest.raises(StoreUnavailable, match="read-only"):
        await Boundary(faulty, "db", "manifest", clock).advance(9)


async def test_metrics(boundary: Boundary, store: MemoryStore, registry: CollectorRegistry) -> None:
    await boundary.read()
    await boundary.advance(1)
    assert value(registry, "slate_boundary_check_seconds_count") == 2
    assert value(registry, "slate_boundary_advance_attempts_total") == 1
    assert value(registry, "slate_boundary_advance_failures_total") == 0

    real = store.put

    async def overtaken(*args: object, **options: object) -> str:
        store.put = real  # type: ignore[method-assign]
        await store.put(KEY, b"5", Update((await store.head(KEY)).etag))
        raise Conflict(KEY, CREATE)

    store.put = overtaken  # type: ignore[method-assign, assignment]
    assert await boundary.advance(3) == 5
    assert value(registry, "slate_boundary_advance_attempts_total") == 2
    assert value(registry, "slate_boundary_advance_failures_total") == 1


def test_one_registry_serves_many(store: MemoryStore, clock: ManualRuntime, registry: CollectorRegistry) -> None:
    for name in ("manifest", "compactions", "manifest"):
        Boundary(store, "db", name, clock, metrics=BoundaryMetrics.of(registry))
        Boundary(store, "db", name, clock)


async def test_a_check_is_one_request(boundary: Boundary, requests: Tally) -> None:
    await boundary.advance(1)
    before = dict(requests.requests)
    await boundary.read()
    assert requests.requests[Request.GET] - before[Request.GET] == 1
    assert sum(requests.requests.values()) - sum(before.values()) == 1
