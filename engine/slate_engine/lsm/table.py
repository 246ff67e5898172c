"""One SST in the store, read a part at a time.

The manifest says where its index, filters and statistics are, so nothing is fetched that is not needed: a point read
costs at most one GET each for the filters, the index and a block, and nothing when they are cached.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from slate_engine.format.blocks import decode_blocks
from slate_engine.format.bloom import BloomFilter
from slate_engine.format.columns import EMPTY, I64, Rows
from slate_engine.format.filters import Bloom, choose
from slate_engine.format.key_range import BoundType, KeyRange
from slate_engine.format.sst import BlockMap, check_layout, read_filters, read_index, read_stats
from slate_engine.format.sst_meta import SstStats
from slate_engine.lsm.cache import Cache
from slate_engine.lsm.order import lower_bound, point_span, upper_bound
from slate_engine.lsm.row import Row, find_versions
from slate_engine.runtime import Runtime
from slate_engine.state.ssts import SstHandle
from slate_engine.store.protocol import NotFound, ObjectStore

INLINE_BYTES = 64 * 1024
"""Less than this is decoded at once: handing it to a thread would take longer."""

Filters = list[tuple[Bloom, BloomFilter]]


class MissingSst(NotFound):
    """An SST that a manifest shows is not in the store any more."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.message = (
            f"SST {key} does not exist, although the manifest that was read refers to it: garbage collection has gone past "
            "that manifest, or somebody deleted the object. Read the newest state, or hold a checkpoint while you read"
        )
        self.args = (self.message,)

    def __reduce__(self) -> tuple[object, ...]:
        return MissingSst, (self.key,)


class Table:
    """An SST at ``key`` of the store. Parts that were read stay in the cache."""

    def __init__(
        self, store: ObjectStore, key: str, handle: SstHandle, cache: Cache, runtime: Runtime, policies: Sequence[Bloom]
    ) -> None:
        check_layout(handle.info, 1 << 63, object=key)
        self.key = key
        self.handle = handle
        self._store = store
        self._cache = cache
        self._runtime = runtime
        self._policies = policies

    async def blocks(self) -> BlockMap:
        return await self._cache.get(
            (self.key, "index"), self._load_blocks, lambda map: map.first_keys.nbytes + 24 * len(map)
        )

    async def filters(self) -> Filters:
        """The filters that this reader's policies can use."""
        if not self.handle.info.filter_len:
            return []
        return await self._cache.get((self.key, "filters"), self._load_filters, lambda _: self.handle.info.filter_len)

    async def stats(self) -> SstStats | None:
        info = self.handle.info
        if not info.stats_len:
            return None
        return read_stats(await self._read(info.stats_offset, info.stats_len), info, object=self.key)

    async def may_have_prefix(self, prefix: bytes) -> bool:
        """False if a filter says that no key of the SST begins with ``prefix``. Filters that cannot tell are not read."""
        if not any(policy.tells_prefix(prefix) for policy in self._policies):
            return True
        return all(policy.may_have_prefix(bloom, prefix) for policy, bloom in await self.filters())

    async def rows(self, first: int, last: int, *, values: bool = True) -> Rows:
        """The rows of blocks ``[first, last)``, fetched with one request."""
        if first >= last:
            return EMPTY
        blocks = await self.blocks()
        start, end = int(blocks.starts[first]), int(blocks.ends[last - 1])
        data = await self._read(start, end - start)
        starts, ends = blocks.starts[first:last], blocks.ends[first:last]
        if end - start < INLINE_BYTES:
            return self._decode(data, start, starts, ends, values)
        return await self._runtime.run(self._decode, data, start, starts, ends, values)

    async def rows_in(self, wanted: KeyRange, *, values: bool = True) -> Rows:
        """The rows whose keys lie in ``wanted``."""
        first, last = block_span(await self.blocks(), wanted)
        return cut(await self.rows(first, last, values=values), wanted)

    async def versions(self, key: bytes, max_seq: int, *, keep: bool = True) -> list[Row]:
        """The versions of ``key`` at or below ``max_seq``, newest first. What was read for it stays in the cache, its blocks
        only if they are to be kept."""
        found = self.cached_versions(key, max_seq)
        while found is None:
            if not may_have(await self.filters(), key):
                return []
            first, last = point_span((await self.blocks()).first_keys, key)
            if keep:
                await self.keep_blocks(first, last)
            found = self.cached_versions(key, max_seq)
            if found is None:
                # They are not to be kept, or the cache is too small for them.
                rows = await self.rows(first, last)
                return list(find_versions(rows, key, max_seq))
        return found

    def cached_versions(self, key: bytes, max_seq: int) -> list[Row] | None:
        """The same without waiting; None if something has to be read."""
        peek = self._cache.peek
        if self.handle.info.filter_len:
            filters = peek((self.key, "filters"))
            if filters is None:
                return None
            if not may_have(filters, key):
                return []
        blocks = peek((self.key, "index"))
        if blocks is None:
            return None
        first, last = point_span(blocks.first_keys, key)
        found: list[Row] = []
        for number in range(first, last):
            rows = peek((self.key, number))
            if rows is None:
                return None
            found += find_versions(rows, key, max_seq)
        return found

    async def keep_blocks(self, first: int, last: int) -> None:
        """Bring the blocks ``[first, last)`` into the cache."""
        await asyncio.gather(*(self._block(number) for number in range(first, last)))

    async def _block(self, number: int) -> Rows:
        return await self._cache.get(
            (self.key, number), lambda: self.rows(number, number + 1), lambda rows: rows.nbytes + 1024
        )

    async def _load_blocks(self) -> BlockMap:
        info = self.handle.info
        return read_index(await self._read(info.index_offset, info.index_len), info, object=self.key)

    async def _load_filters(self) -> Filters:
        info = self.handle.info
        section = await self._read(info.filter_offset, info.filter_len)
        return choose(read_filters(section, info, object=self.key), self._policies)

    async def _read(self, offset: int, length: int) -> memoryview:
        try:
            (data,) = await self._store.get_ranges(self.key, [(offset, offset + length)])
        except NotFound:
            raise MissingSst(self.key) from None
        return memoryview(data)

    def _decode(self, data: memoryview, base: int, starts: I64, ends: I64, values: bool) -> Rows:
        return decode_blocks(
            data,
            starts,
            ends,
            version=self.handle.format_version,
            codec=self.handle.info.codec,
            object=self.key,
            base=base,
            values=values,
        )


def may_have(filters: Filters, key: bytes) -> bool:
    """False if one of the filters says that its SST does not have ``key``."""
    return all(policy.may_have_key(bloom, key) for policy, bloom in filters)


def block_span(blocks: BlockMap, wanted: KeyRange) -> tuple[int, int]:
    """The blocks ``[first, last)`` that may hold keys of ``wanted``. A separator is not greater than its block's first
    key, and versions of the key that a range begins with may reach back into the block before."""
    first, last = 0, len(blocks)
    if wanted.start.bounded:
        first = max(lower_bound(blocks.first_keys, wanted.start.key) - 1, 0)
    if wanted.end.bounded:
        search = upper_bound if wanted.end.type is BoundType.INCLUDED else lower_bound
        # The first separator is empty whatever the first key is: block 0 is always worth a look.
        last = max(search(blocks.first_keys, wanted.end.key), min(1, len(blocks)))
    return first, max(first, last)


def cut(rows: Rows, wanted: KeyRange) -> Rows:
    """The rows of a sorted batch whose keys lie in ``wanted``; shares its buffers."""
    first, last = 0, len(rows)
    if wanted.start.bounded:
        search = lower_bound if wanted.start.type is BoundType.INCLUDED else upper_bound
        first = search(rows.keys, wanted.start.key)
    if wanted.end.bounded:
        search = upper_bound if wanted.end.type is BoundType.INCLUDED else lower_bound
        last = search(rows.keys, wanted.end.key)
    return rows.slice(first, max(first, last))
