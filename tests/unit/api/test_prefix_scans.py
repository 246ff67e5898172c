"""Scans of a prefix ask the filters that know prefixes, and read no SST that has nothing for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import Buffer


class Recording(MemoryStore):
    """Remembers what was read of which SST."""

    def __init__(self, runtime: SystemRuntime) -> None:
        super().__init__(runtime)
        self.read: list[str] = []

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        self.read.append(key)
        return await super().get_ranges(key, ranges)


def tenants(lib: Any) -> Any:
    class UpToColon(lib.PrefixExtractor):  # type: ignore[misc]
        def name(self) -> str:
            return "up to the colon"

        def prefix_len(self, target: Any) -> int | None:
            text = target.key if target.is_point() else target.prefix
            return text.index(b":") + 1 if b":" in text else None

    return UpToColon()


@pytest.fixture
def recording() -> Recording:
    return Recording(SystemRuntime(threads=1))


async def scanned(ours: Any, store: Recording, prefix: bytes, *, policies: list[Any]) -> tuple[list[bytes], int]:
    """The keys that a scan of ``prefix`` gives, and how many SSTs it has read anything but the filters of."""
    object_store = ours.lib.ObjectStore.of(store)
    settings = ours.settings(min_filter_keys=1)
    async with ours.db(object_store, settings=settings, filter_policies=policies) as db:
        for tenant in (b"ann", b"bob", b"cid"):
            for number in range(3):
                await db.put(b"%b:%d" % (tenant, number), b"v")
            # Their ranges overlap, so that nothing but a filter tells what is in them.
            await db.put(b"a", b"v")
            await db.put(b"z", b"v")
            await ours.flush_memtable(db)
    async with ours.db(object_store, settings=settings, filter_policies=policies) as db:
        await db.scan_prefix(b"nobody:", ours.everything)
        store.read.clear()
        iterator = await db.scan_prefix(prefix, ours.everything)
        keys = [row.key for row in await iterator.next_batch(100)]
        return keys, len({key for key in store.read if store.read.count(key) > 1})


async def test_only_what_may_have_the_prefix_is_read(ours: Any, recording: Recording) -> None:
    lib = ours.lib
    options = lib.BloomFilterOptions(bits_per_key=20, whole_key_filtering=True)
    policies = [lib.FilterPolicy.bloom_with_options(options, tenants(lib))]
    keys, read = await scanned(ours, recording, b"bob:", policies=policies)
    assert keys == [b"bob:0", b"bob:1", b"bob:2"]
    assert read == 1


async def test_filters_of_whole_keys_are_not_asked(ours: Any, recording: Recording) -> None:
    """They would cost a request, and cannot tell."""
    keys, read = await scanned(ours, recording, b"bob:", policies=[ours.lib.FilterPolicy.bloom(10)])
    assert keys == [b"bob:0", b"bob:1", b"bob:2"]
    assert read == 3
    assert len(recording.read) == 6


async def test_a_prefix_that_the_extractor_cannot_place_is_looked_for_everywhere(
    ours: Any, recording: Recording
) -> None:
    lib = ours.lib
    options = lib.BloomFilterOptions(bits_per_key=20, whole_key_filtering=True)
    policies = [lib.FilterPolicy.bloom_with_options(options, tenants(lib))]
    keys, read = await scanned(ours, recording, b"bo", policies=policies)
    assert keys == [b"bob:0", b"bob:1", b"bob:2"]
    assert read == 3
