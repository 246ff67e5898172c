"""The work queue: which objects are to be looked at, each once at a time, and when.

A key that is added while it waits is there already; one that is added while it is worked on is looked at once more after
that. What fails comes back later and later, with chance in it, so that a thousand that failed together do not return so.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from slate_operator.clock import Clock
from slate_operator.kube.cluster import Key, Kind

log = logging.getLogger(__name__)

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 300.0
STUCK = 600.0


@dataclass(frozen=True, slots=True)
class Item:
    """An object to look at."""

    kind: Kind
    key: Key

    def __str__(self) -> str:
        return f"{self.kind.kind} {self.key}"


class WorkQueue:
    """One loop (:meth:`run`) hands items to ``handle``, no more than ``workers`` at a time."""

    def __init__(self, clock: Clock, workers: int) -> None:
        self._clock = clock
        self._workers = workers
        self._ready: OrderedDict[Item, float] = OrderedDict()
        self._at_work: dict[Item, asyncio.Task[None]] = {}
        self._again: set[Item] = set()
        self._due: dict[Item, float] = {}
        self._timers: list[tuple[float, int, Item]] = []
        self._order = itertools.count()
        self._failures: dict[Item, int] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """How many wait to be looked at now."""
        return len(self._ready)

    @property
    def busy(self) -> int:
        return len(self._at_work)

    @property
    def idle(self) -> bool:
        """Nothing is to be done now, though some things may be later."""
        return not self._ready and not self._at_work

    def add(self, item: Item) -> None:
        """Look at it soon."""
        if item in self._at_work:
            self._again.add(item)
        else:
            self._ready.setdefault(item, self._clock.monotonic())
        self._changed.set()

    def add_after(self, item: Item, seconds: float) -> None:
        """Look at it after a while, unless that is planned for an earlier time already."""
        due = self._clock.monotonic() + seconds
        if due < self._due.get(item, float("inf")):
            self._due[item] = due
            heapq.heappush(self._timers, (due, next(self._order), item))
            self._changed.set()

    def failed(self, item: Item) -> float:
        """It could not be done: come back, later each time. Tells after how long."""
        times = self._failures.get(item, 0)
        self._failures[item] = times + 1
        pause = min(FIRST_PAUSE * 2.0 ** min(times, 30), LONGEST_PAUSE) * self._clock.uniform(0.75, 1.25)
        self.add_after(item, pause)
        return pause

    def succeeded(self, item: Item) -> None:
        self._failures.pop(item, None)

    def forget(self, item: Item) -> None:
        """The object is gone: no timer and no failure of it matters."""
        self._failures.pop(item, None)
        self._due.pop(item, None)
        self._ready.pop(item, None)

    def stuck(self) -> list[str]:
        """What has waited or been worked on for far too long, in words."""
        oldest = next(iter(self._ready.items()), None)
        if oldest is None or self._clock.monotonic() - oldest[1] <= STUCK:
            return []
        return [f"{oldest[0]} has waited longer than {STUCK:.0f} s for its turn"]

    async def run(self, handle: Callable[[Item], Awaitable[None]]) -> None:
        """Hand out what is to be done, until cancelled. ``handle`` reports its failures itself."""
        while True:
            self._ripen()
            while self._ready and len(self._at_work) < self._workers:
                item, _ = self._ready.popitem(last=False)
                self._at_work[item] = asyncio.create_task(self._work(item, handle), name=str(item))
            self._changed.clear()
            await self._next()

    async def drain(self, seconds: float) -> None:
        """Let what was begun come to its end, for so long; cut off the rest. To be called when :meth:`run` has ended."""
        working = list(self._at_work.values())
        if working:
            _, late = await asyncio.wait(working, timeout=seconds)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _work(self, item: Item, handle: Callable[[Item], Awaitable[None]]) -> None:
        try:
            await handle(item)
        except Exception:
            log.exception("%s could not be handled; this is a bug", item)
            self.failed(item)
        finally:
            del self._at_work[item]
            if item in self._again:
                self._again.discard(item)
                self.add(item)
            self._changed.set()

    def _ripen(self) -> None:
        """Timers whose time has come. A timer that was replaced by an earlier one, or forgotten, means nothing."""
        now = self._clock.monotonic()
        while self._timers and self._timers[0][0] <= now:
            due, _, item = heapq.heappop(self._timers)
            if self._due.get(item) == due:
                del self._due[item]
                self.add(item)

    async def _next(self) -> None:
        """Until something changes or a timer is due."""
        waiting: set[asyncio.Future[Any]] = {asyncio.ensure_future(self._changed.wait())}
        if self._timers:
            pause = self._timers[0][0] - self._clock.monotonic()
            waiting.add(asyncio.ensure_future(self._clock.sleep(max(pause, 0.0))))
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()
                with suppress(asyncio.CancelledError):
                    await future
