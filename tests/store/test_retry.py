"""Retries: what is repeated, for how long, and that a lost answer is never mistaken for anything else."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

import pytest

from slate_engine.errors import InvalidError
from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import (
    CREATE,
    OVERWRITE,
    Buffer,
    Conflict,
    Denied,
    NotFound,
    PutMode,
    StoreUnavailable,
    Update,
)
from slate_engine.store.retry import RetryingStore, RetryPolicy
from tests.simulation.loop import SimulatedRuntime, simulate

T = TypeVar("T")
PUT = frozenset({"put"})


class Bench:
    """A retrying store on a faulty store on memory, and the bare memory beside it."""

    def __init__(
        self, runtime: SimulatedRuntime, faults: Iterable[Fault] = (), policy: RetryPolicy | None = None
    ) -> None:
        self.runtime = runtime
        self.memory = MemoryStore(runtime)
        self.faulty = FaultyStore(self.memory, runtime, faults)
        self.store = RetryingStore(self.faulty, runtime, policy)


def on_bench(scenario: Callable[[Bench], Awaitable[T]], *faults: Fault, policy: RetryPolicy | None = None) -> T:
    async def run(runtime: SimulatedRuntime) -> T:
        return await scenario(Bench(runtime, faults, policy))

    return simulate(run, seed=1)


async def outcome(call: Awaitable[str]) -> str:
    try:
        await call
        return "won"
    except Conflict:
        return "conflict"
    except StoreUnavailable as error:
        return "unknown" if error.unknown_outcome else "failed"


def during(act: Callable[[], Coroutine[Any, Any, object]], strike: Strike = Strike.BEFORE) -> Fault:
    """A lost request (or answer) of our first PUT, with ``act`` happening before we come back to look."""
    acting: list[asyncio.Task[object]] = []

    def error(key: str) -> StoreUnavailable:
        acting.append(asyncio.ensure_future(act()))
        return StoreUnavailable("connection broken", unknown_outcome=True)

    return Fault(strike, PUT, calls=frozenset({1}), error=error)


@pytest.mark.parametrize("strike", [Strike.BEFORE, Strike.AFTER, Strike.LATE])
@pytest.mark.parametrize("mode", ["create", "update", "overwrite"])
@pytest.mark.parametrize("data", [b"", b"content"])
def test_a_lost_request_or_answer_does_not_show(strike: Strike, mode: str, data: bytes) -> None:
    async def scenario(bench: Bench) -> None:
        first = "" if mode == "create" else await bench.memory.put("k", b"before")
        modes: dict[str, PutMode] = {"create": CREATE, "update": Update(first), "overwrite": OVERWRITE}
        etag = await bench.store.put("k", data, modes[mode])
        await bench.faulty.arrivals()
        found = await bench.memory.get("k")
        assert bytes(found.data) == data
        if strike is not Strike.LATE or mode != "overwrite":
            assert found.meta.etag == etag

    on_bench(scenario, Fault(strike, PUT, calls=frozenset({1, 2}), seconds=0.02))


@pytest.mark.parametrize("data", [b"", b"the same bytes"])
def test_an_identical_object_of_another_writer_is_a_conflict_and_no_success(data: bytes) -> None:
    """Our request was lost on the way; meanwhile somebody else created the object, with the very same bytes."""

    async def scenario(bench: Bench) -> str:
        other = RetryingStore(bench.memory, bench.runtime)
        bench.faulty.faults.append(during(lambda: other.put("k", data, CREATE)))
        return await outcome(bench.store.put("k", data, CREATE))

    assert on_bench(scenario) == "conflict"


def test_an_identical_update_of_another_writer_is_a_conflict_and_no_success() -> None:
    async def scenario(bench: Bench) -> str:
        etag = await bench.memory.put("k", b"1")
        other = RetryingStore(bench.memory, bench.runtime)
        bench.faulty.faults.append(during(lambda: other.put("k", b"2", Update(etag))))
        return await outcome(bench.store.put("k", b"2", Update(etag)))

    assert on_bench(scenario) == "conflict"


def test_an_object_without_a_mark_leaves_a_lost_create_open() -> None:
    """Another tool wrote it, and may have written it over ours."""

    async def scenario(bench: Bench) -> str:
        bench.faulty.faults.append(during(lambda: bench.memory.put("k", b"")))
        return await outcome(bench.store.put("k", b"", CREATE))

    assert on_bench(scenario) == "unknown"


def test_a_successor_of_our_lost_create_leaves_it_open() -> None:
    """Our create was carried out, its answer lost; before we look, somebody updates it. A conflict would be a lie."""

    async def scenario(bench: Bench) -> str:
        other = RetryingStore(bench.memory, bench.runtime)

        async def supersede() -> None:
            await other.put("k", b"2", Update((await other.head("k")).etag))

        bench.faulty.faults.append(during(supersede, Strike.AFTER))
        return await outcome(bench.store.put("k", b"1", CREATE))

    assert on_bench(scenario) == "unknown"


def test_a_successor_of_our_lost_update_leaves_it_open() -> None:
    async def scenario(bench: Bench) -> str:
        first = await bench.memory.put("k", b"1")
        other = RetryingStore(bench.memory, bench.runtime)

        async def supersede() -> None:
            await other.put("k", b"3", Update((await other.head("k")).etag))

        bench.faulty.faults.append(during(supersede, Strike.AFTER))
        return await outcome(bench.store.put("k", b"2", Update(first)))

    assert on_bench(scenario) == "unknown"


def test_a_refusal_by_our_own_hidden_first_attempt_is_a_success() -> None:
    """A proxy sent the PUT twice and showed us the second answer only."""

    class SendsTwice(MemoryStore):
        async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
            await super().put(key, data, mode, mark=mark)
            return await super().put(key, data, mode, mark=mark)

    async def scenario(runtime: SimulatedRuntime) -> None:
        store = RetryingStore(SendsTwice(runtime), runtime)
        etag = await store.put("k", b"1", CREATE)
        assert await store.put("k", b"2", Update(etag)) == (await store.head("k")).etag

    simulate(scenario, 1)


def test_gives_up_and_says_that_the_outcome_is_unknown() -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(StoreUnavailable, match="attempt 3") as caught:
            await bench.store.put("k", b"", CREATE)
        assert caught.value.unknown_outcome

    on_bench(scenario, Fault(Strike.BEFORE, probability=1.0), policy=RetryPolicy(attempts=3))


@pytest.mark.parametrize(("strike", "expected"), [(Strike.AFTER, "won"), (Strike.BEFORE, "unknown")])
def test_the_last_attempt_is_settled_too(strike: Strike, expected: str) -> None:
    """Even with no attempt left there is a last look: a success must not end as an error for want of patience."""

    async def scenario(bench: Bench) -> str:
        return await outcome(bench.store.put("k", b"", CREATE))

    assert on_bench(scenario, Fault(strike, PUT, probability=1.0), policy=RetryPolicy(attempts=1)) == expected


def test_gives_up_and_says_that_nothing_happened() -> None:
    """Throttled to the end: the service said each time that it did nothing."""

    async def scenario(bench: Bench) -> None:
        with pytest.raises(StoreUnavailable) as caught:
            await bench.store.put("k", b"", CREATE)
        assert not caught.value.unknown_outcome
        with pytest.raises(NotFound):
            await bench.memory.head("k")

    on_bench(scenario, Fault(Strike.BEFORE, PUT, probability=1.0, error=lambda key: StoreUnavailable("slow down")))


def test_a_lost_answer_is_remembered_when_a_later_attempt_is_denied() -> None:
    async def scenario(bench: Bench) -> str:
        denied = Fault(Strike.BEFORE, PUT, calls=frozenset({1}), error=lambda key: Denied("expired"))
        lost = Fault(Strike.BEFORE, PUT, calls=frozenset({1}))
        bench.faulty.faults += [lost, denied]
        return await outcome(bench.store.put("k", b"", CREATE))

    assert on_bench(scenario) == "unknown"


def test_does_not_repeat_what_cannot_succeed() -> None:
    async def scenario(bench: Bench) -> None:
        started = bench.runtime.monotonic()
        with pytest.raises(Denied):
            await bench.store.put("k", b"", CREATE)
        with pytest.raises(StoreUnavailable):
            await bench.store.get("k")
        with pytest.raises(InvalidError):
            await bench.store.head("k")
        assert bench.runtime.monotonic() == started

    on_bench(
        scenario,
        Fault(Strike.BEFORE, PUT, probability=1.0, error=lambda key: Denied("no")),
        Fault(
            Strike.BEFORE, frozenset({"get"}), probability=1.0, error=lambda k: StoreUnavailable("no", retryable=False)
        ),
        Fault(Strike.BEFORE, frozenset({"head"}), probability=1.0, error=lambda key: InvalidError("no")),
    )


def test_waits_longer_each_time_at_random_and_not_too_long() -> None:
    async def scenario(runtime: SimulatedRuntime) -> list[float]:
        times: list[float] = []

        def failing(key: str) -> StoreUnavailable:
            times.append(runtime.monotonic())
            return StoreUnavailable("down")

        faulty = FaultyStore(MemoryStore(runtime), runtime, [Fault(Strike.BEFORE, probability=1.0, error=failing)])
        policy = RetryPolicy(attempts=100, seconds=30.0, first_delay=0.1, longest_delay=2.0)
        with pytest.raises(StoreUnavailable):
            await RetryingStore(faulty, runtime, policy).get("k")
        return times

    runs = [simulate(scenario, seed) for seed in (1, 2)]
    assert runs[0] != runs[1]
    for times in runs:
        delays = [later - sooner for sooner, later in itertools.pairwise(times)]
        for number, delay in enumerate(delays):
            span = min(2.0, 0.1 * 2**number)
            assert span / 2 <= delay <= span
        assert 27.0 < times[-1] <= 30.0


def test_reads_copies_and_deletes_are_repeated() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.memory.put("k", b"value")
        assert bytes((await bench.store.get("k")).data) == b"value"
        assert (await bench.store.head("k")).size == 5
        assert [bytes(part) for part in await bench.store.get_ranges("k", [(1, 3)])] == [b"al"]
        await bench.store.copy("k", "c")
        await bench.store.delete(iter(["k"]))
        with pytest.raises(NotFound):
            await bench.store.get("k")
        assert (await bench.memory.head("c")).size == 5

    first = frozenset({1})
    operations = ("get", "head", "get_ranges", "copy", "delete")
    on_bench(scenario, *(Fault(Strike.AFTER, frozenset({operation}), calls=first) for operation in operations))


def test_a_listing_goes_on_where_it_broke() -> None:
    async def scenario(bench: Bench) -> None:
        keys = [f"{number:05d}" for number in range(4500)]
        for key in keys:
            await bench.memory.put(key, b"")
        found = [meta.key async for page in bench.store.list("") for meta in page]
        assert found == keys

    breaks = frozenset({1, 3, 4, 7})
    on_bench(scenario, Fault(Strike.BEFORE, frozenset({"list"}), calls=breaks), policy=RetryPolicy(attempts=3))


@pytest.mark.parametrize(("strike", "expected"), [(Strike.AFTER, "won"), (Strike.BEFORE, "unknown")])
def test_a_stream_whose_last_answer_was_lost_is_recognised(strike: Strike, expected: str) -> None:
    async def scenario(bench: Bench) -> str:
        async def chunks() -> AsyncIterator[Buffer]:
            yield b"chunk"

        return await outcome(bench.store.put_stream("k", chunks()))

    assert on_bench(scenario, Fault(strike, frozenset({"put_stream"}), calls=frozenset({1}))) == expected
