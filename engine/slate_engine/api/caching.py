"""The cache that an application made, as the engine uses it; and what it may ask of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from slate_engine.api.building import instance
from slate_engine.api.caches import DbCache
from slate_engine.api.choices import CacheTarget
from slate_engine.api.inspection import view_id
from slate_engine.api.ranges import engine_range
from slate_engine.api.records import SsTableId
from slate_engine.lsm.cache import Cache, Lru
from slate_engine.lsm.table import Table, block_span
from slate_engine.runtime import Runtime
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import SstView


class SharedCache(Cache):
    """A :class:`DbCache` that other databases may use, too, under other ids. Only what is just being loaded is our own."""

    def __init__(self, shared: DbCache, id: int, runtime: Runtime) -> None:
        super().__init__(0)
        self._shared = shared
        self._id = id
        self._runtime = runtime

    def __len__(self) -> int:
        return len(self._shared.blocks) + (0 if self._shared.meta is self._shared.blocks else len(self._shared.meta))

    def peek(self, key: Hashable) -> Any | None:
        cache = self._part(key)
        return cache.get((self._id, key), self._now(cache))

    def evict(self, wanted: Callable[[Hashable], bool]) -> None:
        def ours(key: Hashable) -> bool:
            return isinstance(key, tuple) and key[0] == self._id and wanted(key[1])

        self._shared.blocks.evict(ours)
        self._shared.meta.evict(ours)

    def _keep(self, key: Hashable, value: Any, nbytes: int) -> None:
        cache = self._part(key)
        cache.put((self._id, key), value, nbytes, self._now(cache))

    def _part(self, key: Hashable) -> Lru:
        # A table asks for its blocks by their numbers and for all else by a word.
        return self._shared.blocks if isinstance(key, tuple) and isinstance(key[1], int) else self._shared.meta

    def _now(self, cache: Lru) -> float:
        return self._runtime.monotonic() if cache.timed else 0.0


async def warm(
    manifest: Manifest, open_table: Callable[[SstView], Table], sst_id: SsTableId, targets: list[CacheTarget]
) -> None:
    """Bring parts of an SST into the cache; nothing happens if the database does not have it (any more)."""
    id = view_id(instance(sst_id, SsTableId, "sst_id").value)
    wanted = [instance(target, CacheTarget, "a target") for target in targets]
    handle = manifest.ssts.find(id)
    if handle is None:
        return
    table = open_table(SstView(id, handle))
    for target in wanted:
        if isinstance(target, CacheTarget.FILTERS):
            await table.filters()
        elif isinstance(target, CacheTarget.INDEX):
            await table.blocks()
        elif isinstance(target, CacheTarget.DATA):
            await table.keep_blocks(*block_span(await table.blocks(), engine_range(target.range)))
        # Statistics are read when somebody asks for them and not kept.


def evict(cache: Cache, sst_id: SsTableId) -> None:
    """Drop all parts of an SST."""
    name = f"{view_id(instance(sst_id, SsTableId, 'sst_id').value)}.sst"
    cache.evict(lambda key: isinstance(key, tuple) and str(key[0]).endswith(name))
