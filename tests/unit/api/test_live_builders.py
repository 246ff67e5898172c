"""What a database can be built with, and what builders refuse, as both implementations have it."""

from __future__ import annotations

from typing import Any

import pytest


async def test_segments_are_reported_and_kept(kit: Any) -> None:
    lib = kit.lib

    class FirstThree(lib.PrefixExtractor):  # type: ignore[misc]
        def name(self) -> str:
            return "first three"

        def prefix_len(self, target: Any) -> int | None:
            return 3 if len(target.key if target.is_point() else target.prefix) >= 3 else None

    store = kit.memory()
    async with kit.db(store, segment_extractor=FirstThree()) as db:
        await db.put(b"bbb-1", b"v")
        await db.put(b"aaa-1", b"v")
        assert [segment.prefix for segment in db.status().segments] == [b"aaa", b"bbb"]
        await kit.flush_memtable(db)
        kind, message, _ = await kit.failure(db.put(b"xy", b"v"))
        assert kind == "Invalid"
        assert message.startswith("Invalid error: segment extractor produced an empty prefix for key")
    manifest = await lib.AdminBuilder("db", store).build().read_manifest(None)
    assert [segment.prefix for segment in manifest.segments] == [b"aaa", b"bbb"]
    for open_without in (kit.db(store), kit.reader(store, reader_mode=lib.ReaderMode.FOLLOW_LATEST())):
        with pytest.raises(lib.Error.Invalid, match="segment extractor configuration mismatch"):
            await open_without.__aenter__()
    async with kit.db(store, segment_extractor=FirstThree()) as db:
        assert await kit.rows(db) == [(b"aaa-1", b"v"), (b"bbb-1", b"v")]


async def test_builders_build_once(kit: Any) -> None:
    lib, consumed = kit.lib, "builder has already been consumed"
    builder = lib.DbBuilder("db", kit.memory())
    db = await builder.build()
    assert (await kit.failure(builder.build()))[:2] == ("Invalid", consumed)
    for change in (lambda: builder.with_seed(1), lambda: builder.with_db_cache_disabled()):
        with pytest.raises(lib.Error.Invalid) as caught:
            change()
        assert caught.value.message == consumed
    await db.shutdown()


async def test_settings_that_cannot_work_are_refused_on_opening(kit: Any) -> None:
    builder = kit.lib.DbBuilder("db", kit.memory())
    builder.with_settings(kit.settings(l0_flush_parallelism=0))
    kind, message, _ = await kit.failure(builder.build())
    assert (kind, message) == (
        "Invalid",
        "Invalid error: invalid configuration: l0_flush_parallelism must be at least 1",
    )


@pytest.mark.parametrize(
    ("method", "wrong", "error"),
    [
        ("with_db_cache", (3, 1), TypeError),
        ("with_filter_policies", (3,), TypeError),
        ("with_filter_policies", ([3],), TypeError),
        ("with_merge_operator", (3,), TypeError),
        ("with_metrics_recorder", (3,), TypeError),
        ("with_seed", (-1,), ValueError),
        ("with_seed", ("x",), TypeError),
        ("with_segment_extractor", (3,), TypeError),
        ("with_settings", (3,), TypeError),
        ("with_sst_block_size", (3,), ValueError),
        ("with_wal_object_store", (3,), TypeError),
    ],
)
def test_builders_refuse_what_is_not_theirs(kit: Any, method: str, wrong: tuple[Any, ...], error: type) -> None:
    builder = kit.lib.DbBuilder("db", kit.memory())
    with pytest.raises(error):
        getattr(builder, method)(*wrong)


async def test_ssts_can_be_warmed_and_evicted(kit: Any) -> None:
    lib, store = kit.lib, kit.memory()
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
        await kit.flush_memtable(db)
        manifest = await lib.AdminBuilder("db", store).build().read_manifest(None)
        id = manifest.l0[0].sst.id
        target = lib.CacheTarget
        await db.warm_sst(id, [target.FILTERS(), target.INDEX(), target.STATS(), target.DATA(kit.everything)])
        await db.evict_cached_sst(id)
        assert await db.get(b"k") == b"v"
        unknown = lib.SsTableId(value="01ARZ3NDEKTSV4RRFFQ69G5FAV")
        await db.warm_sst(unknown, [target.INDEX()])
        await db.evict_cached_sst(unknown)
        await db.flush_cache_to_disk()
        for action in (db.warm_sst(lib.SsTableId(value="x"), []), db.evict_cached_sst(lib.SsTableId(value="x"))):
            kind, message, _ = await kit.failure(action)
            assert kind == "Invalid"
            assert message.startswith("invalid SST ULID: invalid length")


async def test_the_log_may_lie_in_a_store_of_its_own(kit: Any) -> None:
    main, log = kit.memory(), kit.memory()
    async with kit.db(main, wal_object_store=log) as db:
        await db.put(b"k", b"v")
        await db.flush()
        mode = kit.lib.ReaderMode.FOLLOW_LATEST()
        async with kit.reader(main, wal_object_store=log, reader_mode=mode) as reader:
            assert await reader.get(b"k") == b"v"
        async with kit.reader(main, reader_mode=mode) as reader:
            assert await reader.get(b"k") is None
