"""Time, chance and threads, handed in.

No other module of the engine asks the wall clock, draws a random number or starts a thread: it is given a
:class:`Runtime`. Production passes :class:`SystemRuntime`; a simulation passes one with virtual time and a seed, and the
same code becomes deterministic.
"""

from __future__ import annotations

import asyncio
import os
import random as _random
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

T = TypeVar("T")

SCATTER = int.from_bytes(os.urandom(8), "big") | 1
"""Odd, and another one in every process: how hash tables are kept from being filled unevenly by whoever chooses the keys. No
result may depend on it, so a simulation need not know it."""


class Runtime(Protocol):
    """What the engine may know of the world outside the object store."""

    def now_ms(self) -> int:
        """Milliseconds of the unix epoch, by the wall clock."""
        ...

    def monotonic(self) -> float:
        """Seconds on a clock that never goes back; only differences mean anything."""
        ...

    async def sleep(self, seconds: float) -> None: ...

    def random_bytes(self, n: int) -> bytes: ...

    def uniform(self, low: float, high: float) -> float: ...

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Run blocking or CPU-bound work without holding up the event loop."""
        ...


class Moment:
    """Now, to ask later how long ago that was."""

    __slots__ = ("_monotonic", "_ms", "_runtime")

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._monotonic = runtime.monotonic()
        self._ms = runtime.now_ms()

    def age(self) -> float:
        """Seconds since then, rather too many than too few: the monotonic clock stands still while the machine sleeps, and
        the wall clock may be set forward."""
        return max(self.awake(), (self._runtime.now_ms() - self._ms) / 1000)

    def awake(self) -> float:
        """Seconds since then that the machine was not asleep."""
        return self._runtime.monotonic() - self._monotonic


def uuid4(runtime: Runtime) -> uuid.UUID:
    """A random (version 4) UUID drawn from the runtime's own chance."""
    return uuid.UUID(bytes=runtime.random_bytes(16), version=4)


class SystemRuntime:
    """The real clock, the operating system's randomness, a thread pool."""

    def __init__(self, threads: int | None = None) -> None:
        self._random = _random.SystemRandom()
        self._threads = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="slate")

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def random_bytes(self, n: int) -> bytes:
        return self._random.randbytes(n)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    async def run(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
