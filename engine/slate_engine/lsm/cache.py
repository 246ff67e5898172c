"""What has been read and decoded, kept as long as there is room.

The least recently used goes first. Whoever asks for something that is just being loaded waits for that load instead of
starting a second one.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class _Entry(NamedTuple):
    value: Any
    nbytes: int
    stored: float
    used: float


class Lru:
    """Values by key, at most ``capacity`` bytes of them; the least recently used goes first.

    Any thread may call. Time is handed in, in seconds on a clock that never goes back; a cache without lifetimes
    (``timed`` is false) does not look at it, so that its callers need not ask the clock.
    """

    def __init__(self, capacity: int, lifetime: float | None = None, idle: float | None = None) -> None:
        self.capacity = capacity
        self.nbytes = 0
        self.timed = lifetime is not None or idle is not None
        self._lifetime = lifetime
        self._idle = idle
        self._entries: OrderedDict[Hashable, _Entry] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, now: float) -> Any:
        """The value, or ``None`` if it is not there (any more)."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            if self.timed:
                if self._expired(entry, now):
                    self._drop(key)
                    return None
                self._entries[key] = entry._replace(used=now)
            self._entries.move_to_end(key)
            return entry.value

    def put(self, key: Hashable, value: Any, nbytes: int, now: float) -> None:
        """Keep a value that takes ``nbytes`` of memory. One that is larger than the whole cache is not kept."""
        with self._lock:
            if key in self._entries:
                self._drop(key)
            if nbytes > self.capacity:
                return
            self._entries[key] = _Entry(value, nbytes, now, now)
            self.nbytes += nbytes
            while self.nbytes > self.capacity:
                self._drop(next(iter(self._entries)))

    def evict(self, matches: Callable[[Hashable], bool]) -> None:
        """Forget the keys that match; looks at all of them."""
        with self._lock:
            for key in [key for key in self._entries if matches(key)]:
                self._drop(key)

    def __len__(self) -> int:
        return len(self._entries)

    def _expired(self, entry: _Entry, now: float) -> bool:
        if self._lifetime is not None and now - entry.stored >= self._lifetime:
            return True
        return self._idle is not None and now - entry.used >= self._idle

    def _drop(self, key: Hashable) -> None:
        self.nbytes -= self._entries.pop(key).nbytes


class Cache:
    """Loads what is not kept yet. Belongs to one event loop."""

    def __init__(self, max_bytes: int) -> None:
        self._kept = Lru(max_bytes)
        self._loading: dict[Hashable, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    @property
    def max_bytes(self) -> int:
        return self._kept.capacity

    @max_bytes.setter
    def max_bytes(self, most: int) -> None:
        self._kept.capacity = most

    def peek(self, key: Hashable) -> Any | None:
        """The value if it is here, without waiting."""
        return self._kept.get(key, 0.0)

    async def get(self, key: Hashable, load: Callable[[], Awaitable[T]], size: Callable[[T], int]) -> T:
        """The value, loaded now if it is not here."""
        found: T | None = self.peek(key)
        if found is not None:
            return found
        loading = self._loading.get(key)
        if loading is None:
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda done: self._loaded(key, done, size))
        # One waiter that is cancelled must not take the load away from the others.
        value: T = await asyncio.shield(loading)
        return value

    def evict(self, wanted: Callable[[Hashable], bool]) -> None:
        """Drop every value whose key ``wanted`` accepts."""
        self._kept.evict(wanted)

    def _loaded(self, key: Hashable, done: asyncio.Future[T], size: Callable[[T], int]) -> None:
        del self._loading[key]
        if done.cancelled() or done.exception() is not None:
            return
        value = done.result()
        self._keep(key, value, size(value))

    def _keep(self, key: Hashable, value: Any, nbytes: int) -> None:
        self._kept.put(key, value, nbytes, 0.0)
