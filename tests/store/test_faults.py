"""Faults strike as scripted, and chance is the runtime's."""

from __future__ import annotations

import pytest

from slate_engine.store.faults import Fault, FaultyStore, Strike
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import CREATE, Conflict, NotFound, StoreUnavailable
from tests.simulation.loop import SimulatedRuntime, simulate

PUT = frozenset({"put"})


def test_before_after_and_late() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        memory = MemoryStore(runtime)
        store = FaultyStore(memory, runtime)
        for strike, carried_out in ((Strike.BEFORE, False), (Strike.AFTER, True), (Strike.LATE, False)):
            store.faults = [Fault(strike, PUT, calls=frozenset({1}), seconds=5.0)]
            with pytest.raises(StoreUnavailable) as caught:
                await store.put(strike.value, b"", CREATE)
            assert caught.value.unknown_outcome
            if carried_out:
                await memory.head(strike.value)
            else:
                with pytest.raises(NotFound):
                    await memory.head(strike.value)
        started = runtime.monotonic()
        await store.arrivals()
        assert runtime.monotonic() - started == pytest.approx(5.0)
        await memory.head("late")
        with pytest.raises(NotFound):
            await memory.head("before")

    simulate(scenario, 1)


def test_a_late_write_that_is_refused_troubles_nobody() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = FaultyStore(MemoryStore(runtime), runtime, [Fault(Strike.LATE, PUT, calls=frozenset({1}), seconds=1)])
        with pytest.raises(StoreUnavailable):
            await store.put("k", b"late", CREATE)
        await store.put("k", b"first", CREATE)
        await store.close()
        assert bytes((await store.get("k")).data) == b"first"

    simulate(scenario, 1)


def test_calls_are_counted_where_they_match() -> None:
    async def scenario(runtime: SimulatedRuntime) -> list[str]:
        third = Fault(Strike.BEFORE, PUT, lambda key: key.startswith("m/"), calls=frozenset({3}))
        store = FaultyStore(MemoryStore(runtime), runtime, [third])
        failed = []
        for key in ("m/1", "x/1", "m/2", "x/2", "x/3", "m/3", "m/4"):
            try:
                await store.put(key, b"")
            except StoreUnavailable:
                failed.append(key)
        return failed

    assert simulate(scenario, 1) == ["m/3"]


def test_chance_is_reproducible_and_bounded() -> None:
    def failures(seed: int, times: int | None = None) -> list[int]:
        async def scenario(runtime: SimulatedRuntime) -> list[int]:
            fault = Fault(Strike.BEFORE, probability=0.3, times=times, error=lambda key: Conflict(key, CREATE))
            store = FaultyStore(MemoryStore(runtime), runtime, [fault])
            failed = []
            for number in range(200):
                try:
                    await store.put("k", b"")
                except Conflict:
                    failed.append(number)
            return failed

        return simulate(scenario, seed)

    assert failures(1) == failures(1) != failures(2)
    assert 30 < len(failures(1)) < 90
    assert len(failures(1, times=5)) == 5


def test_delays_hold_up_the_call_and_nothing_else() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = FaultyStore(MemoryStore(runtime), runtime, [Fault(Strike.DELAY, probability=1.0, seconds=2.0)])
        started = runtime.monotonic()
        await store.put("k", b"")
        assert [meta.key async for page in store.list("") for meta in page] == ["k"]
        assert runtime.monotonic() - started == pytest.approx(6.0)

    simulate(scenario, 1)
