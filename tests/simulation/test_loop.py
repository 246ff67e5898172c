"""The simulation itself: hours pass in no time, runs repeat exactly, and a deadlock is found instead of hung on."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation.loop import Deadlock, SimulatedRuntime, simulate


async def racing(runtime: SimulatedRuntime) -> list[tuple[str, int]]:
    log: list[tuple[str, int]] = []

    async def worker(name: str) -> None:
        for _ in range(20):
            await runtime.sleep(runtime.uniform(0, 600))
            log.append((name, runtime.now_ms()))

    await asyncio.gather(*(worker(name) for name in "abc"))
    return log


def test_the_same_seed_gives_the_same_run() -> None:
    first, again, other = simulate(racing, 7), simulate(racing, 7), simulate(racing, 8)
    assert first == again
    assert first != other
    assert max(at for _, at in first) - min(at for _, at in first) > 3_600_000


def test_a_deadlock_is_reported() -> None:
    async def stuck(runtime: SimulatedRuntime) -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        simulate(stuck, 1)


def test_threads_of_the_runtime_take_virtual_time_and_give_results() -> None:
    async def working(runtime: SimulatedRuntime) -> list[int]:
        return await asyncio.gather(*(runtime.run(pow, 2, n) for n in range(5)))

    assert simulate(working, 1) == [1, 2, 4, 8, 16]
