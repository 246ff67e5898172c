"""Time and chance, handed to everything that needs them, so that tests own both. Only this module asks the machine."""

from __future__ import annotations

import asyncio
import random
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds of the unix epoch, by the wall clock."""

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""

    async def sleep(self, seconds: float) -> None: ...

    def uniform(self, low: float, high: float) -> float: ...

    def random_bytes(self, n: int) -> bytes: ...


class SystemClock:
    """The machine's."""

    def __init__(self) -> None:
        self._random = random.SystemRandom()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def random_bytes(self, n: int) -> bytes:
        return self._random.randbytes(n)


def stamp(seconds: float) -> str:
    """A time as Kubernetes writes it in most places: to the second."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(seconds: float) -> str:
    """A time as Leases have it."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def seconds_of(stamped: str) -> float:
    """What :func:`stamp` and :func:`micro_stamp` write, read back."""
    return datetime.fromisoformat(stamped).timestamp()
