"""The cache of blocks, indexes and filters that a database (or several) reads through."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.options import FoyerCacheOptions, MokaCacheOptions
from slate_engine.errors import InvalidError
from slate_engine.lsm.cache import Lru


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
