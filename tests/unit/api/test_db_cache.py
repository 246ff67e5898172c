"""Caches: bounded in bytes and in time, least recently used first out."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import slatedb.uniffi as wheel
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.api.caches import DbCache
from slate_engine.api.options import FoyerCacheOptions, MokaCacheOptions
from slate_engine.errors import InvalidError
from slate_engine.lsm.cache import Lru


@given(st.lists(st.tuples(st.sampled_from(["get", "put"]), st.integers(0, 6), st.integers(0, 12)), max_size=60))
def test_keeps_the_most_recently_used_that_fit(steps: list[tuple[str, int, int]]) -> None:
    """Against a model that is a list of (key, size), the least recently used first."""
    cache, model = Lru(20), list[tuple[int, int]]()
    for step, key, size in steps:
        known = [entry for entry in model if entry[0] == key]
        if step == "put":
            cache.put(key, (key, size), size, 0.0)
            model = [entry for entry in model if entry[0] != key]
            if size <= 20:
                model.append((key, size))
            while sum(entry[1] for entry in model) > 20:
                model.pop(0)
        else:
            assert cache.get(key, 0.0) == (known[0] if known else None)
            model = [entry for entry in model if entry[0] != key] + known
        assert cache.nbytes == sum(entry[1] for entry in model) <= 20
        assert len(cache) == len(model)


def test_a_value_lives_so_long() -> None:
    cache = Lru(100, lifetime=10.0)
    cache.put("a", 1, 40, 100.0)
    assert cache.get("a", 109.9) == 1
    assert cache.get("a", 110.0) is None
    assert cache.nbytes == 0
    cache.put("a", 2, 40, 110.0)
    cache.put("a", 3, 40, 119.0)
    assert cache.get("a", 128.0) == 3


def test_a_value_that_is_asked_for_stays() -> None:
    cache = Lru(100, idle=10.0)
    cache.put("a", 1, 1, 0.0)
    cache.put("b", 2, 1, 0.0)
    for now in (9.0, 18.0, 27.0):
        assert cache.get("a", now) == 1
    assert cache.get("b", 27.0) is None


def test_keys_are_evicted_by_choice() -> None:
    cache = Lru(100)
    for sst in ("x", "y"):
        for block in range(3):
            cache.put((sst, block), block, 5, 0.0)
    cache.evict(lambda key: isinstance(key, tuple) and key[0] == "x")
    assert len(cache) == 3
    assert cache.nbytes == 15
    assert cache.get(("y", 1), 0.0) == 1


def test_threads_do_not_break_the_count() -> None:
    cache = Lru(500)

    def work(seed: int) -> None:
        for step in range(3_000):
            key = (step * 7 + seed) % 97
            if cache.get(key, 0.0) is None:
                cache.put(key, key, 1 + key % 13, 0.0)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    held = [key for key in range(97) if cache.get(key, 0.0) is not None]
    assert cache.nbytes == sum(1 + key % 13 for key in held) <= 500


def test_a_split_cache_keeps_blocks_and_all_else_apart() -> None:
    small = DbCache.new_foyer_cache(FoyerCacheOptions(max_capacity=10, shards=4))
    large = DbCache.new_moka_cache(MokaCacheOptions(max_capacity=100, time_to_live=1_500, time_to_idle=None))
    assert small.blocks is small.meta
    assert not small.blocks.timed
    split = DbCache.new_split_cache(large, small)
    assert (split.blocks, split.meta) == (large.blocks, small.meta)
    assert split.blocks.timed
    split.blocks.put("a", 1, 1, 0.0)
    assert (split.blocks.get("a", 1.4), split.blocks.get("a", 1.5)) == (1, None)
    again = DbCache.new_split_cache(split, split)
    assert (again.blocks, again.meta) == (split.blocks, split.meta)


@pytest.mark.parametrize(
    ("factory", "options", "values"),
    [
        ("new_foyer_cache", "FoyerCacheOptions", {"max_capacity": -1, "shards": 1}),
        ("new_foyer_cache", "FoyerCacheOptions", {"max_capacity": 2**64, "shards": 1}),
        ("new_foyer_cache", "FoyerCacheOptions", {"max_capacity": "1", "shards": 1}),
        ("new_moka_cache", "MokaCacheOptions", {"max_capacity": 1, "time_to_live": -1, "time_to_idle": None}),
        ("new_moka_cache", "MokaCacheOptions", {"max_capacity": 1, "time_to_live": None, "time_to_idle": 1.5}),
        ("new_moka_cache", "MokaCacheOptions", {"max_capacity": 0, "time_to_live": 0, "time_to_idle": 0}),
    ],
)
def test_numbers_are_refused_as_by_the_wheel(factory: str, options: str, values: dict[str, Any]) -> None:
    mine = {"FoyerCacheOptions": FoyerCacheOptions, "MokaCacheOptions": MokaCacheOptions}[options]
    try:
        getattr(wheel.DbCache, factory)(getattr(wheel, options)(**values))
    except (TypeError, ValueError) as refusal:
        with pytest.raises(type(refusal)):
            getattr(DbCache, factory)(mine(**values))
    else:
        getattr(DbCache, factory)(mine(**values))


def test_other_things_are_refused() -> None:
    with pytest.raises(ValueError, match="no default constructor"):
        DbCache()
    with pytest.raises(InvalidError, match="shards"):
        DbCache.new_foyer_cache(FoyerCacheOptions(max_capacity=1, shards=0))
    with pytest.raises(TypeError, match="FoyerCacheOptions"):
        DbCache.new_foyer_cache(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="MokaCacheOptions"):
        DbCache.new_moka_cache(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="DbCaches"):
        DbCache.new_split_cache(None, None)  # type: ignore[arg-type]
