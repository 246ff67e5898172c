"""The cache of blocks, indexes and filters that a database (or several) reads through."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from slate_engine.api import arguments
from slate_engine.api.options import FoyerCacheOptions, MokaCacheOptions
from slate_engine.errors import InvalidError


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


class DbCache:
    """A cache to hand to a builder; databases may share one under different ids.

    ``blocks`` holds data blocks; ``meta`` holds indexes, filters and statistics. They are one and the same unless the
    cache was split, so that a large scan cannot push out what every read needs.
    """

    blocks: Lru
    meta: Lru

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise ValueError(
            "this class has no default constructor; use new_foyer_cache, new_moka_cache or new_split_cache"
        )

    @classmethod
    def new_foyer_cache(cls, options: FoyerCacheOptions) -> DbCache:
        """A cache bounded in bytes. ``shards`` is checked and otherwise ignored: here one lock is no bottleneck."""
        if not isinstance(options, FoyerCacheOptions):
            raise TypeError(f"options must be FoyerCacheOptions, not {type(options).__name__!r}")
        if arguments.unsigned(options.shards, "shards") == 0:
            raise InvalidError("shards must be greater than zero")
        one = Lru(arguments.unsigned(options.max_capacity, "max_capacity"))
        return cls._of(one, one)

    @classmethod
    def new_moka_cache(cls, options: MokaCacheOptions) -> DbCache:
        """A cache bounded in bytes and, if asked for, in time."""
        if not isinstance(options, MokaCacheOptions):
            raise TypeError(f"options must be MokaCacheOptions, not {type(options).__name__!r}")
        one = Lru(
            arguments.unsigned(options.max_capacity, "max_capacity"),
            _seconds(options.time_to_live, "time_to_live"),
            _seconds(options.time_to_idle, "time_to_idle"),
        )
        return cls._of(one, one)

    @classmethod
    def new_split_cache(cls, block_cache: DbCache, meta_cache: DbCache) -> DbCache:
        """One cache for data blocks, another for all else."""
        for cache in (block_cache, meta_cache):
            if not isinstance(cache, DbCache):
                raise TypeError(f"a split cache is made of two DbCaches, not of {type(cache).__name__!r}")
        return cls._of(block_cache.blocks, meta_cache.meta)

    @classmethod
    def _of(cls, blocks: Lru, meta: Lru) -> DbCache:
        cache = cls.__new__(cls)
        cache.blocks, cache.meta = blocks, meta
        return cache


def _seconds(milliseconds: int | None, what: str) -> float | None:
    return None if milliseconds is None else arguments.unsigned(milliseconds, what) / 1000
