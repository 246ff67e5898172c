"""Destroying, softly and for good, and taking it back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from uuid import UUID

import pytest

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.destroying import destroy_hard, destroy_softly, objects_of, read_time, undelete
from slate_engine.errors import Fenced, InvalidError
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.options import GcOptions, Task, dry
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.guard import check_nobody_works
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.checkpoints import NotInitialized
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import (
    InvalidDeletion,
    NotDestroyed,
    claimed_for_deletion,
)
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.tombstone import Destroyed, Tombstone, check_alive
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import EPOCH_MS, SimulatedRuntime, simulate
from tests.unit.admin.crashes import at_every_request
from tests.unit.admin.test_checkpoints import SlowStore
from tests.unit.admin.test_cloning import ROWS, beside, parent
from tests.unit.admin.workshop import CountingStore, Database, names, scan

GRACE = 1000.0
OPTIONS = GcOptions(destroyed=Task(min_age=GRACE))
A = UUID(int=1, version=4)
NOW_S = EPOCH_MS // 1000


async def everything(store: ObjectStore, prefix: str = "parent/") -> list[str]:
    return await names(store, prefix)


@pytest.mark.parametrize("name", [None, "", "mine", "odd;was=destroyed_at_s=7;deleting"])
def test_the_mark_holds_whatever_the_extractor_was_called(name: str | None) -> None:
    for tombstone in (Tombstone(5, name), Tombstone(5, name, deleting=True), Tombstone(5, name, returning_s=7)):
        manifest = Manifest(initialized=False, segment_extractor_name=tombstone.text)
        assert Tombstone.of(manifest) == tombstone
        with pytest.raises(Destroyed):
            check_alive(manifest)
    # Nothing but the mark counts: not a name alone, and not a clone under construction.
    check_alive(Manifest(segment_extractor_name=Tombstone(5).text))
    check_alive(Manifest(initialized=False, segment_extractor_name=name))


def test_nobody_uses_a_destroyed_database_and_nothing_of_it_is_lost() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        kept = await create_checkpoint(db.files, CheckpointOptions(whole_log=True))
        writer = await Writer.open(db.files, WriterOptions())
        await (await writer.write([Change(b"d", b"4")])).durable()
        assert await destroy_softly(db.files) == NOW_S
        assert await destroy_softly(db.files) == NOW_S
        assert await read_time(db.files) == NOW_S
        with pytest.raises(Fenced):
            await (await writer.write([Change(b"e", b"5")])).durable()
        for use in (
            db.files.latest(),
            Writer.open(db.files, WriterOptions()),
            Reader.latest(db.files, ReaderOptions()),
            Reader.managed(db.files, ReaderOptions()),
            create_checkpoint(db.files),
            create_clone(beside(db, "clone").files, [CloneSource("parent")]),
            create_clone(beside(db, "clone").files, [CloneSource("parent", kept.id)]),
        ):
            with pytest.raises(Destroyed, match="can be undeleted"):
                await use
        # What a checkpoint keeps is kept, and can be read.
        assert await scan(await db.files.checkpoint(kept.id)) == ROWS
        await undelete(db.files)
        await undelete(db.files)
        assert await read_time(db.files) is None
        assert await db.values() == {**ROWS, b"d": b"4"}
        assert (await db.manifest()).segment_extractor_name is None
        second = await Writer.open(db.files, WriterOptions())
        await (await second.write([Change(b"f", b"6")])).durable()
        await second.close()
        assert await db.values() == {**ROWS, b"d": b"4", b"f": b"6"}

    simulate(scenario, 1)


def test_the_checkpoints_of_writers_go_and_those_of_others_stay() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A, name="mine"))
        writers = Checkpoint(UUID(int=2, version=4), 2, None, NOW_S, writer_epoch=0)
        await db.files.manifests.update(lambda old: replace(old, checkpoints=(*old.checkpoints, writers)))
        # It stays what it is through a reading and a writing.
        assert [each.writer_epoch for each in await list_checkpoints(db.files)] == [None, 0]
        await destroy_softly(db.files)
        assert [each.name for each in await list_checkpoints(db.files)] == ["mine"]
        await undelete(db.files)
        assert await db.values() == ROWS

    simulate(scenario, 1)


@pytest.mark.parametrize("seed", range(3))
def test_several_that_destroy_it_at_once(seed: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime, SlowStore(runtime))
        times = await asyncio.gather(*(destroy_softly(db.files) for _ in range(4)))
        assert set(times) == {await read_time(db.files)}
        await undelete(db.files)
        assert await db.values() == ROWS

    simulate(scenario, seed)


def test_a_log_in_a_store_of_its_own() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket, logs = MemoryStore(runtime), MemoryStore(runtime, name="logs")
        files = DatabaseFiles(bucket, "db", runtime, wal_store=logs)
        writer = await Writer.open(files, WriterOptions())
        await (await writer.write([Change(b"a", b"1")])).durable()
        await destroy_softly(files)
        with pytest.raises(Fenced):
            await (await writer.write([Change(b"b", b"2")])).durable()
        planned = await objects_of(files)
        assert sum("/wal/" in key for key in planned) == len(logs._objects) > 1
        await destroy_hard(files)
        assert bucket._objects == logs._objects == {}

    simulate(scenario, 1)


def test_undelete_of_what_is_not_destroyed() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = Database(MemoryStore(runtime), runtime)
        await db.files.manifests.create_first(Manifest(initialized=False))
        with pytest.raises(NotDestroyed):
            await undelete(db.files)
        with pytest.raises(NotInitialized):
            await destroy_softly(db.files)
        await destroy_hard(db.files)  # a clone that is not finished may go
        with pytest.raises(NothingStored):
            await destroy_softly(db.files)

    simulate(scenario, 1)


def test_for_good_only_when_nobody_needs_it() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A, lifetime_ms=60_000, name="nightly"))
        with pytest.raises(
            InvalidDeletion, match=rf"{A} \(nightly\), of manifest 4, until 2023-11-14T22:14:20Z"
        ) as refused:
            await destroy_hard(db.files)
        assert [checkpoint.id for checkpoint in refused.value.checkpoints] == [A]
        assert await db.values() == ROWS  # nothing has happened to it
        await runtime.sleep(61)
        batches: list[int] = []
        planned = await objects_of(db.files)
        gone = await destroy_hard(db.files, lambda keys: batches.append(len(keys)))
        assert set(planned) <= set(gone)
        assert sum(batches) == len(gone)
        assert gone[-1].endswith("00000000000000000005.manifest")
        assert await everything(db.store) == []
        with pytest.raises(NothingStored, match="is the path right"):
            await destroy_hard(db.files)

    simulate(scenario, 1)


def test_nobody_goes_on_from_what_he_remembers_of_it() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        files = db.files
        await create_checkpoint(files, CheckpointOptions(id=A))
        await delete_checkpoint(files, A)
        await destroy_hard(files)
        for use in (create_checkpoint(files), destroy_softly(files), undelete(files), destroy_hard(files)):
            with pytest.raises(NothingStored):
                await use
        assert await everything(db.store) == []

    simulate(scenario, 1)


def test_a_clone_is_released_by_its_parent() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        with pytest.raises(InvalidDeletion, match="clone clone"):
            await destroy_hard(db.files)
        await destroy_hard(clone.files)
        assert await list_checkpoints(db.files) == []
        await destroy_hard(db.files)
        assert await everything(db.store, "") == []
        # Also if the parent is gone: whoever deleted it did not ask.
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        pages = [meta.key async for page in db.store.list("parent/") for meta in page]
        await db.store.delete(pages)
        await destroy_hard(clone.files)
        assert await everything(db.store, "") == []

    simulate(scenario, 1)


def test_what_is_not_the_database_is_left_alone() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        inner = await Database(db.store, runtime, "parent/inner").make()
        with pytest.raises(InvalidError, match="'parent/inner' lies inside"):
            await destroy_hard(db.files)
        assert await db.values() == ROWS
        await destroy_hard(inner.files)
        await db.store.put("parental/notes", b"")
        await db.store.put("other/data", b"")
        await destroy_hard(db.files)
        assert await everything(db.store, "") == ["data", "notes"]
        with pytest.raises(NothingStored):
            await destroy_hard(Database(db.store, runtime, "other").files)
        # At the root of a store only what bears the names of a database is its own.
        root = await Database(db.store, runtime, "").make()
        await destroy_hard(root.files)
        assert await everything(db.store, "") == ["data", "notes"]
        # What the original has begun to delete needs no manifest any more.
        await db.store.put("theirs/.deleting", b"")
        await db.store.put("theirs/compacted/x.sst", b"")
        await destroy_hard(Database(db.store, runtime, "theirs").files)
        assert await everything(db.store, "") == ["data", "notes"]

    simulate(scenario, 1)


def test_a_crash_at_any_request_of_a_deletion_and_a_repetition_leave_nothing() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        async def world() -> MemoryStore:
            store = CountingStore(runtime)
            db = await parent(runtime, store)
            await create_clone(beside(db, "clone").files, [CloneSource("parent")])
            clone = beside(db, "clone")
            await runtime.sleep(1)
            await clone.flush({b"x": b"1", b"c": b"3"})
            await runtime.sleep(1000)
            await collect_once(clone.files)
            return store

        async def work(store: ObjectStore) -> None:
            await destroy_hard(DatabaseFiles(store, "clone", runtime))

        async def afterwards(bucket: MemoryStore) -> None:
            if await everything(bucket, "clone/"):
                # While anything is left, so is the manifest that says what to do with it.
                assert any(key.startswith("clone/manifest/") for key in bucket._objects)
                await work(bucket)
            assert await everything(bucket, "clone/") == []
            assert await list_checkpoints(DatabaseFiles(bucket, "parent", runtime)) == []
            assert await Database(bucket, runtime, "parent").values() == ROWS

        assert await at_every_request(world, work, afterwards) > 10

    simulate(scenario, 1)


@pytest.mark.parametrize("soft", [True, False], ids=["destroy", "undelete"])
def test_a_crash_at_any_request_and_a_repetition_end_where_they_should(soft: bool) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        async def world() -> MemoryStore:
            store = CountingStore(runtime)
            db = await parent(runtime, store)
            if not soft:
                await destroy_softly(db.files)
            return store

        async def work(store: ObjectStore) -> None:
            files = DatabaseFiles(store, "parent", runtime)
            await (destroy_softly(files) if soft else undelete(files))

        async def afterwards(bucket: MemoryStore) -> None:
            await work(bucket)
            db = Database(bucket, runtime, "parent")
            if soft:
                assert await read_time(db.files) == NOW_S
                with pytest.raises(Destroyed):
                    await db.values()
                await undelete(db.files)
            assert await read_time(db.files) is None
            assert await db.values() == ROWS

        assert await at_every_request(world, work, afterwards) >= 6

    simulate(scenario, 1)


def test_the_collector_deletes_it_after_the_grace_and_not_before() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        collector = Collector(db.files, OPTIONS)
        assert (await collector.collect()).waiting is None
        await destroy_softly(db.files)
        report = await collector.collect()
        assert report.waiting is not None
        assert "undeleted until 2023-11-14T22:30:00Z" in report.waiting
        await create_clone_checkpoint(db)
        await runtime.sleep(GRACE)
        report = await collector.collect()
        assert not report.gone
        assert report.waiting is not None
        assert str(A) in report.waiting
        await delete_checkpoint(db.files, A)
        assert not (await Collector(db.files, dry(OPTIONS)).collect()).gone
        assert (await collector.collect()).gone
        assert await everything(db.store) == []
        assert (await collector.collect()).gone

    simulate(scenario, 1)


async def create_clone_checkpoint(db: Database) -> None:
    """One that was there before the database was destroyed, as it were."""
    await undelete(db.files)
    await create_checkpoint(db.files, CheckpointOptions(id=A))
    await destroy_softly(db.files)


def test_the_collector_ends_what_others_have_begun() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        # Destroyed, but for the object with the time.
        db = await parent(runtime)
        await destroy_softly(db.files)
        await db.store.delete(["parent/gc/destroyed_at_s"])
        assert not (await collect_once(db.files, OPTIONS)).gone
        assert await read_time(db.files) == NOW_S
        # Marked for deletion, and nothing deleted yet: there is no grace any more, and no way back.
        await db.files.manifests.update(lambda old: claimed_for_deletion(old, now_ms=runtime.now_ms()))
        with pytest.raises(Destroyed, match="is being deleted"):
            await undelete(db.files)
        assert (await collect_once(db.files, OPTIONS)).gone

    simulate(scenario, 1)


def test_a_time_that_an_earlier_life_left_behind_does_not_shorten_the_grace() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await destroy_softly(db.files)
        await undelete(db.files)
        # Whoever destroyed it stalled before it wrote the object, and does so now.
        await db.store.put("parent/gc/destroyed_at_s", b"%d" % NOW_S)
        assert (await collect_once(db.files, OPTIONS)).waiting is None  # an object alone destroys nothing
        await runtime.sleep(5 * GRACE)
        await destroy_softly(db.files)
        assert await read_time(db.files) == NOW_S + 5 * GRACE
        await db.store.put("parent/gc/destroyed_at_s", b"%d" % NOW_S)
        assert not (await collect_once(db.files, OPTIONS)).gone
        await undelete(db.files)
        assert await db.values() == ROWS

    simulate(scenario, 1)


@pytest.mark.parametrize("seed", range(6))
def test_of_deleting_and_undeleting_at_once_only_one_happens(seed: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await destroy_softly(db.files)
        await runtime.sleep(GRACE + 1)

        async def after(delay: float, work: object) -> object:
            await runtime.sleep(delay)
            return await work  # type: ignore[misc]

        report, back = await asyncio.gather(
            after(runtime.uniform(0, 1), collect_once(db.files, OPTIONS)),
            after(runtime.uniform(0, 1), undelete(db.files)),
            return_exceptions=True,
        )
        if back is None:
            assert await db.values() == ROWS
            assert not report.gone  # type: ignore[union-attr]
        else:
            assert isinstance(back, (Destroyed, NothingStored)), back
            assert await everything(db.store) == []

    simulate(scenario, seed)


def test_a_compactor_of_ours_works_on_what_was_brought_back_at_once() -> None:
    """Destroying took the compactor's epoch. That was us, and not a stranger for whose silence one would have to wait."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await take_epoch(db.files, db.books)
        await destroy_softly(db.files)
        await undelete(db.files)
        await check_nobody_works(db.files, db.books)

    simulate(scenario, 1)


def test_a_log_with_a_gap_is_closed_and_the_gap_stays() -> None:
    """A writer does not read its log, so it may go on behind a file that was lost."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        files = DatabaseFiles(store, "db", runtime)
        writer = await Writer.open(files, WriterOptions())
        for number in range(3):
            await (await writer.write([Change(b"%d" % number, b"value")])).durable()
        await writer.close()
        live = await Writer.open(files, WriterOptions(manifest_poll_interval=1e6))
        await (await live.write([Change(b"4", b"value")])).durable()
        lost = files.paths.wal((await files.manifests.read_latest()).value.needed_wal_ids[-1])
        await store.delete([lost])
        for _ in range(2):
            await destroy_softly(DatabaseFiles(store, "db", runtime))
        assert await read_time(files) is not None
        with pytest.raises(Fenced):
            await (await live.write([Change(b"late", b"value")])).durable()
        await undelete(DatabaseFiles(store, "db", runtime))
        assert lost.rpartition("/")[2] not in await names(store, "db/wal/")
        with pytest.raises(WalTruncated):
            await DatabaseFiles(store, "db", runtime).latest()

    simulate(scenario, 1)


def test_the_end_of_a_log_whose_last_files_were_lost_is_behind_them() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        files = DatabaseFiles(store, "db", runtime)
        writer = await Writer.open(files, WriterOptions())
        await (await writer.write([Change(b"a", b"value")])).durable()
        await writer.close()
        last = (await files.manifests.read_latest()).value.wal_id_last_seen
        await store.delete([files.paths.wal(last)])
        for _ in range(2):
            await destroy_softly(DatabaseFiles(store, "db", runtime))
        await undelete(DatabaseFiles(store, "db", runtime))
        assert await names(store, "db/wal/") == [f"{id:020d}.sst" for id in (*range(1, last), last + 1)]
        with pytest.raises(WalTruncated):
            await DatabaseFiles(store, "db", runtime).latest()

    simulate(scenario, 1)
