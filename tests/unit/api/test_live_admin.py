"""The administrator's view, as both implementations have it."""

from __future__ import annotations

import time
from typing import Any

import pytest

UNKNOWN = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def plain(value: Any) -> Any:
    """A record of either implementation as lists and dictionaries, for comparing."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if hasattr(value, "__dict__") and not isinstance(value, type) and not hasattr(value, "value"):
        return {name: plain(item) for name, item in vars(value).items()}
    return getattr(value, "name", value) if not isinstance(value, bytes | str | int) else value


async def test_manifests_are_read_and_listed(kit: Any) -> None:
    store = kit.memory()
    admin = kit.lib.AdminBuilder("db", store).build()
    assert await admin.read_manifest(None) is None
    assert await admin.list_manifests(None, None) == []
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
        await kit.flush_memtable(db)
        newest = await admin.read_manifest(None)
        assert (newest.last_l0_seq, newest.writer_epoch, len(newest.l0), newest.initialized) == (1, 1, 1, True)
        first = await admin.read_manifest(1)
        assert (first.id, first.last_l0_seq, first.last_l0_clock_tick) == (1, 0, -(2**63))
        assert await admin.read_manifest(99) is None
        everything = [manifest.id for manifest in await admin.list_manifests(None, None)]
        assert everything == list(range(1, newest.id + 1))
        assert [manifest.id for manifest in await admin.list_manifests(2, 3)] == [2]
        assert [manifest.id for manifest in await admin.list_manifests(None, 2)] == [1]
        assert await admin.list_manifests(3, 2) == []
        assert await admin.list_manifests(0, 0) == []
        view = await admin.read_compactor_state_view()
        assert (view.manifest.id, view.compactions) == (newest.id, None)
        with pytest.raises(ValueError, match="0"):
            await admin.list_manifests(-1, None)


async def test_both_see_the_same_in_the_same_files(original: Any, ours: Any, tmp_path: Any) -> None:
    """Manifests and compactions of both makes, read by both: field by field the same."""

    def folder(kit: Any) -> Any:
        builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType.LOCAL)
        builder.with_config("local_path", str(tmp_path))
        return builder.build()

    for kit, path in ((original, "theirs"), (ours, "ours")):
        settings = kit.settings(compression_codec="Zstd", min_filter_keys=1)
        async with kit.db(folder(kit), path, settings=settings) as db:
            for value in (b"1", b"2"):
                await db.put(b"k", value)
                await kit.flush_memtable(db)
            admin = kit.lib.AdminBuilder(path, folder(kit)).build()
            options = kit.lib.CheckpointOptions(lifetime_ms=60_000, source=None, name="mine")
            await admin.create_detached_checkpoint(options)
        views = [
            plain(await other.lib.AdminBuilder(path, folder(other)).build().list_manifests(None, None))
            for other in (original, ours)
        ]
        assert len(views[0]) >= 5
        assert views[0] == views[1]


async def test_compactions_are_asked_for_and_seen(original: Any, ours: Any, tmp_path: Any) -> None:
    """The original's compactor has to have run once; then ours asks it for a compaction, and both see the request."""

    def folder(kit: Any) -> Any:
        builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType.LOCAL)
        builder.with_config("local_path", str(tmp_path))
        return builder.build()

    settings = original.lib.Settings.default()
    for key in ("compactor_options.poll_interval", "compactor_options.commit_compacted_interval"):
        settings.set(key, '"1h"')
    settings.set("garbage_collector_options", "null")
    async with original.db(folder(original), settings=settings) as db:
        for value in (b"1", b"2"):
            await db.put(b"k", value)
            await original.flush_memtable(db)
        theirs = original.lib.AdminBuilder("db", folder(original)).build()
        mine = ours.lib.AdminBuilder("db", folder(ours)).build()
        lib = ours.lib
        views = [view.id for view in (await mine.read_manifest(None)).l0]
        sources = [lib.SourceId.SST_VIEW(id) for id in views]
        asked = await mine.submit_compaction(lib.CompactionSpec.TIERED(b"", sources, 0))
        assert asked.status is lib.CompactionStatus.SUBMITTED
        assert (asked.active, asked.bytes_processed, asked.output_ssts) == (True, 0, [])
        seen = await theirs.read_compaction(asked.id, None)
        assert [source[0] for source in seen.spec.sources] == views
        assert plain(await theirs.list_compactions(None, None)) == plain(await mine.list_compactions(None, None))
        found = await mine.read_compaction(asked.id, None)
        assert [source[0] for source in found.spec.sources] == views
        assert await mine.read_compaction(asked.id, 1) is None
        with pytest.raises(lib.Error.Invalid, match="invalid SST ULID: invalid length"):
            await mine.submit_compaction(lib.CompactionSpec.TIERED(b"", [lib.SourceId.SST_VIEW("x")], 0))


async def test_without_a_compactor_there_is_nothing_to_see(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    admin = lib.AdminBuilder("db", store).build()
    async with kit.db(store):
        assert await admin.read_compactions(None) is None
        assert await admin.read_compactions(1) is None
        assert await admin.list_compactions(None, None) == []
        assert await admin.read_compaction("01ARZ3NDEKTSV4RRFFQ69G5FAV", None) is None
        kind, message, _ = await kit.failure(admin.read_compaction("x", None))
        assert kind == "Invalid"
        assert message.startswith("invalid compaction_id ULID: invalid length")
        kind, message, _ = await kit.failure(admin.submit_compaction(lib.CompactionSpec.TIERED(b"", [], 0)))
        assert kind == "Data"
        assert message.startswith("Data error: invalid DB state error")


async def test_checkpoints_come_and_go(kit: Any) -> None:
    store, lib = kit.memory(), kit.lib
    admin = lib.AdminBuilder("db", store).build()
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
        await kit.flush_memtable(db)

        def options(**changes: Any) -> Any:
            return lib.CheckpointOptions(**{"lifetime_ms": None, "source": None, "name": None, **changes})

        before = (await admin.read_manifest(None)).id
        first = await admin.create_detached_checkpoint(options(name="first"))
        assert first.manifest_id == before + 1
        second = await admin.create_detached_checkpoint(options(source=first.id, lifetime_ms=60_000))
        assert second.manifest_id == first.manifest_id
        listed = {each.id: each for each in await admin.list_checkpoints(None)}
        assert listed[first.id].expire_time_secs is None
        assert listed[first.id].name == "first"
        lives = listed[second.id].expire_time_secs - listed[second.id].create_time_secs
        assert 59 <= lives <= 61
        assert [each.id for each in await admin.list_checkpoints("first")] == [first.id]
        assert [each.id for each in await admin.list_checkpoints("")] == [second.id]
        assert await admin.list_checkpoints("other") == []
        await admin.refresh_checkpoint(second.id, 600_000)
        await admin.refresh_checkpoint(first.id, None)
        (refreshed,) = await admin.list_checkpoints("")
        assert refreshed.expire_time_secs > listed[second.id].expire_time_secs + 500
        await admin.delete_checkpoint(first.id)
        await admin.delete_checkpoint(UNKNOWN)
        assert [each.id for each in await admin.list_checkpoints(None)] == [second.id]
        for action, kind, start in (
            (admin.refresh_checkpoint(UNKNOWN, 5), "Data", "Data error: invalid DB state error"),
            (admin.refresh_checkpoint("x", 5), "Invalid", "invalid checkpoint_id UUID: "),
            (admin.delete_checkpoint("x"), "Invalid", "invalid checkpoint_id UUID: "),
            (admin.create_detached_checkpoint(options(source="x")), "Invalid", "invalid checkpoint_id UUID: "),
            (admin.create_detached_checkpoint(options(source=UNKNOWN)), "Data", "Data error: checkpoint missing."),
        ):
            found, message, _ = await kit.failure(action)
            assert found == kind
            assert message.startswith(start)


async def test_a_checkpoint_of_an_expired_one_is_refused(ours: Any) -> None:
    store, lib = ours.memory(), ours.lib
    async with ours.db(store):
        admin = lib.AdminBuilder("db", store).build()
        expired = await admin.create_detached_checkpoint(lib.CheckpointOptions(lifetime_ms=0, source=None, name=None))
        again = lib.CheckpointOptions(lifetime_ms=None, source=expired.id, name=None)
        kind, message, _ = await ours.failure(admin.create_detached_checkpoint(again))
        assert kind == "Invalid"
        assert "has expired" in message


async def test_sequence_numbers_and_times(kit: Any) -> None:
    store = kit.memory()
    admin = kit.lib.AdminBuilder("db", store).build()
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
        await kit.flush_memtable(db)
        now = int(time.time())
        assert abs(await admin.get_timestamp_for_sequence(1, True) - now) < 60
        assert await admin.get_timestamp_for_sequence(0, False) is None
        assert await admin.get_timestamp_for_sequence(2**64 - 1, True) is None
        assert await admin.get_timestamp_for_sequence(2**64 - 1, False) is not None
        assert await admin.get_sequence_for_timestamp(1, False) is None
        assert await admin.get_sequence_for_timestamp(1, True) == 1
        assert await admin.get_sequence_for_timestamp(now + 100_000, False) == 1
        assert await admin.get_sequence_for_timestamp(now + 100_000, True) is None
        for impossible in (2**63 - 1, -(2**63), 8_210_266_876_800):
            kind, message, _ = await kit.failure(admin.get_sequence_for_timestamp(impossible, False))
            assert (kind, message) == ("Invalid", f"invalid timestamp seconds: {impossible}")
        assert await admin.get_sequence_for_timestamp(8_210_266_876_799, False) == 1
    nothing = kit.lib.AdminBuilder("nothing", store).build()
    assert await nothing.get_sequence_for_timestamp(now, True) is None
    assert await nothing.get_timestamp_for_sequence(1, True) is None


async def test_where_there_is_no_database(kit: Any) -> None:
    lib = kit.lib
    admin = lib.AdminBuilder("nothing", kit.memory()).build()
    options = lib.CheckpointOptions(lifetime_ms=None, source=None, name=None)
    for action in (
        admin.read_compactor_state_view(),
        admin.list_checkpoints(None),
        admin.create_detached_checkpoint(options),
        admin.refresh_checkpoint(UNKNOWN, 5),
        admin.delete_checkpoint(UNKNOWN),
    ):
        kind, message, _ = await kit.failure(action)
        assert kind == "Data"
        assert message.startswith("Data error: failed to find latest transactional object (e.g. manifest) version")


def test_the_builder_builds_once(kit: Any) -> None:
    builder = kit.lib.AdminBuilder("db", kit.memory())
    builder.with_seed(7)
    builder.with_wal_object_store(kit.memory())
    builder.build()
    for again in (lambda: builder.build(), lambda: builder.with_seed(9)):
        with pytest.raises(kit.lib.Error.Invalid, match="builder has already been consumed"):
            again()
