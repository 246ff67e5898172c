"""An event loop on virtual time: nothing ever waits, and the same seed gives the same run to the letter.

The selector of an ordinary asyncio loop is asked to block until the next timer is due; ours moves the clock there instead.
A loop with nothing left to wait for is a deadlock, and says so at once.
"""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""Where the virtual wall clock begins."""


class Deadlock(AssertionError):
    """Every task waits for something that can no longer happen."""


class _VirtualSelector(selectors.BaseSelector):
    """Registers what asyncio registers for itself, and lets time pass instead of blocking."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return self._keys[number]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is scheduled any more, and the scenario has not ended")
        self.now += max(timeout, 0.0)
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock is virtual."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now


class SimulatedRuntime:
    """The engine's :class:`~slate_engine.runtime.Runtime` on a simulated loop: its time, and chance from a seed."""

    def __init__(self, loop: SimulatedLoop, seed: int) -> None:
        self._loop = loop
        self._random = random.Random(seed)
        self.skew_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + int(self._loop.time() * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def random_bytes(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    async def run(self, work: Callable[..., T], *args: object) -> T:
        # A thread would finish at a time of its own choosing; a turn of the loop is as unpredictable, and repeatable.
        await asyncio.sleep(self._random.uniform(0, 0.002))
        return work(*args)


def simulate(scenario: Callable[[SimulatedRuntime], Coroutine[Any, Any, T]], seed: int) -> T:
    """Run ``scenario`` to its end on virtual time, and give what it returns."""
    loop = SimulatedLoop()
    try:
        return loop.run_until_complete(scenario(SimulatedRuntime(loop, seed)))
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
