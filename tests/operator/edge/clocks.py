"""A clock whose time the test moves."""

from __future__ import annotations

import asyncio


class HandClock:
    """Sleepers wake when :meth:`pass_` moves the time beyond what they wait for. Chance is always the middle."""

    def __init__(self) -> None:
        self._now = 1_000_000.0
        self._sleepers: list[tuple[float, asyncio.Event]] = []

    def now(self) -> float:
        return self._now

    def monotonic(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.Event()
        self._sleepers.append((self._now + seconds, woken))
        await woken.wait()

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def random_bytes(self, n: int) -> bytes:
        return bytes(n)

    async def pass_(self, seconds: float) -> None:
        """Let the time go on, and everyone who waited for it do what he does then."""
        self._now += seconds
        for due, woken in self._sleepers:
            if due <= self._now:
                woken.set()
        self._sleepers = [each for each in self._sleepers if each[0] > self._now]
        await settle()


async def settle() -> None:
    """Until nobody has anything to do but wait."""
    for _ in range(50):
        await asyncio.sleep(0)
