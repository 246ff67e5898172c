"""What has been read and decoded, kept as long as there is room.

The least recently used goes first. Whoever asks for something that is just being loaded waits for that load instead of
starting a second one.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Cache:
    """Values by key, at most ``max_bytes`` of them. Belongs to one event loop."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.hits = 0
        self.misses = 0
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._loading: dict[Hashable, asyncio.Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._values)

    def peek(self, key: Hashable) -> Any | None:
        """The value if it is here, without waiting."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        self.hits += 1
        return found[0]

    async def get(self, key: Hashable, load: Callable[[], Awaitable[T]], size: Callable[[T], int]) -> T:
        """The value, loaded now if it is not here."""
        found: T | None = self.peek(key)
        if found is not None:
            return found
        loading = self._loading.get(key)
        if loading is None:
            self.misses += 1
            loading = self._loading[key] = asyncio.ensure_future(load())
            loading.add_done_callback(lambda done: self._loaded(key, done, size))
        # One waiter that is cancelled must not take the load away from the others.
        value: T = await asyncio.shield(loading)
        return value

    def evict(self, wanted: Callable[[Hashable], bool]) -> None:
        """Drop every value whose key ``wanted`` accepts."""
        for key in [key for key in self._values if wanted(key)]:
            self._drop(key)

    def _loaded(self, key: Hashable, done: asyncio.Future[T], size: Callable[[T], int]) -> None:
        del self._loading[key]
        if done.cancelled() or done.exception() is not None:
            return
        value = done.result()
        self._keep(key, value, size(value))

    def _keep(self, key: Hashable, value: Any, bytes_needed: int) -> None:
        if bytes_needed > self.max_bytes:
            return
        self._values[key] = value, bytes_needed
        self.bytes += bytes_needed
        while self.bytes > self.max_bytes:
            self._drop(next(iter(self._values)))

    def _drop(self, key: Hashable) -> None:
        self.bytes -= self._values.pop(key)[1]
