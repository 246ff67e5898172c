"""Going back to a checkpoint in place."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from slate_engine.admin import restoring
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.destroying import destroy_softly
from slate_engine.admin.restoring import PREPARED_MS, RestoreOptions, restore
from slate_engine.errors import Fenced, InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.checkpoints import CheckpointExpired, CheckpointMissing
from slate_engine.state.compactions import Compaction, CompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.tombstone import Destroyed
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.crashes import at_every_request
from tests.unit.admin.test_cloning import ROWS, beside, parent
from tests.unit.admin.workshop import CountingStore, Database, scan

A, B = UUID(int=1, version=4), UUID(int=2, version=4)
EAGER = Task(min_age=0)
EAGERLY = GcOptions(manifests=EAGER, wal=EAGER, compacted=EAGER, compactions=EAGER)


async def changed_since(runtime: SimulatedRuntime, store: MemoryStore | None = None) -> Database:
    """A checkpoint with rows in SSTs and in the log; then more of both, and a compaction."""
    db = await parent(runtime, store)
    await create_checkpoint(db.files, CheckpointOptions(id=A, whole_log=True))
    await runtime.sleep(1)
    await db.publish(await db.upload(db.rows({b"a": b"later", b"c": b"3"})), db.seq, wal_id=3)
    await runtime.sleep(1)
    await db.compact()
    await runtime.sleep(1)
    await db.flush({b"x": b"later"})
    await db.log(4, {b"y": b"latest"})
    return db


LATER = {b"a": b"later", b"b": b"2", b"c": b"3", b"x": b"later", b"y": b"latest"}


def test_the_past_is_the_present_and_the_present_is_kept() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await changed_since(runtime)
        assert await db.values() == LATER
        last_seq = db.seq
        done = await restore(db.files, A)
        assert await db.values() == ROWS
        (kept,) = [each for each in await list_checkpoints(db.files) if each.id == done.kept]
        assert (kept.expire_time_s, kept.name) == (None, f"before restoring {A}")
        assert await scan(await db.files.checkpoint(done.kept)) == LATER
        assert await scan(await db.files.checkpoint(A)) == ROWS
        # No number stands for two commits.
        assert (await db.manifest()).last_l0_seq == last_seq
        writer = await Writer.open(db.files, WriterOptions())
        commit = await writer.write([Change(b"n", b"new")])
        assert commit.seq == last_seq + 1
        await commit.durable()
        await writer.flush_memtable()
        await writer.close()
        assert await db.values() == {**ROWS, b"n": b"new"}
        # And back to where it was.
        await restore(db.files, done.kept)
        assert await db.values() == LATER

    simulate(scenario, 1)


def test_collectors_leave_both_alone() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await changed_since(runtime)
        await runtime.sleep(1)
        await collect_once(db.files, EAGERLY)
        done = await restore(db.files, A)
        for turn in range(2):
            await runtime.sleep(1)
            assert (await collect_once(db.files, EAGERLY)).errors == []
            assert await db.values() == ROWS
            assert await scan(await db.files.checkpoint(done.kept)) == LATER
            if not turn:
                await delete_checkpoint(db.files, A)
        await delete_checkpoint(db.files, done.kept)
        await db.compact()
        await runtime.sleep(1)
        await db.flush({b"z": b"9"})
        await runtime.sleep(1)
        await db.compact_nothing()
        await runtime.sleep(1)
        await collect_once(db.files, EAGERLY)
        assert await db.values() == {**ROWS, b"z": b"9"}
        assert len(await db.names("compacted")) == 2

    simulate(scenario, 1)


def test_whoever_writes_is_fenced() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await changed_since(runtime)
        writer = await Writer.open(db.files, WriterOptions())
        await (await writer.write([Change(b"w", b"1")])).durable()
        compactor_epoch = (await db.manifest()).compactor_epoch
        done = await restore(db.files, A, RestoreOptions(lifetime_ms=60_000))
        with pytest.raises(Fenced):
            await (await writer.write([Change(b"w", b"2")])).durable()
        assert (await db.manifest()).compactor_epoch == compactor_epoch + 1
        assert await db.values() == ROWS
        # What it had written before is part of what is kept.
        assert (await scan(await db.files.checkpoint(done.kept)))[b"w"] == b"1"
        (kept,) = [each for each in await list_checkpoints(db.files) if each.id == done.kept]
        assert kept.expire_time_s == runtime.now_ms() // 1000 + 60

    simulate(scenario, 1)


def test_what_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A, lifetime_ms=1000))
        with pytest.raises(CheckpointMissing):
            await restore(db.files, B)
        await runtime.sleep(1)
        with pytest.raises(CheckpointExpired):
            await restore(db.files, A)
        assert (await db.manifest()).writer_epoch == 0  # nobody was fenced for it
        await destroy_softly(db.files)
        with pytest.raises(Destroyed):
            await restore(db.files, A)

    simulate(scenario, 1)


def test_without_the_log_of_now_it_is_refused_and_a_clone_of_the_past_is_not() -> None:
    """The error must not advise what it refuses."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await changed_since(runtime)
        await db.files.manifests.update(lambda old: replace(old, wal_id_last_seen=4))
        await db.files.store.delete([db.files.paths.wal(4)])
        with pytest.raises(WalTruncated, match="clone or copy a checkpoint that does not need it"):
            await restore(db.files, A)
        copy = beside(db, "clone").files
        await create_clone(copy, [CloneSource(db.files.path, A)])
        assert await scan(await copy.latest()) == ROWS

    simulate(scenario, 1)


def test_of_a_clone_it_knows_its_parents_again() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        await create_checkpoint(clone.files, CheckpointOptions(id=A, whole_log=True))
        clone.seq = 100
        await clone.flush({b"x": b"9", b"c": b"3"})
        await clone.compact()
        await collect_once(clone.files, EAGERLY)
        assert [len(each.sst_ids) for each in (await clone.manifest()).external_dbs] == [0]
        await restore(clone.files, A)
        assert await clone.values() == ROWS
        assert [len(each.sst_ids) for each in (await clone.manifest()).external_dbs] == [2]
        await collect_once(clone.files, EAGERLY)
        assert await clone.values() == ROWS

    simulate(scenario, 1)


def test_rows_of_unknown_segments_need_the_extractor() -> None:
    class FirstByte:
        def name(self) -> str:
            return "first byte"

        def prefix_len(self, target: object) -> int | None:
            return 1

    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket = CountingStore(runtime)
        files = DatabaseFiles(bucket, "db", runtime)
        writer = await Writer.open(files, WriterOptions(extractor=FirstByte()))
        await (await writer.write([Change(b"a1", b"1")])).durable()
        await writer.flush_memtable()
        await (await writer.write([Change(b"a2", b"2")])).durable()
        await create_checkpoint(files, CheckpointOptions(id=A, whole_log=True))
        await (await writer.write([Change(b"b1", b"3")])).durable()
        await create_checkpoint(files, CheckpointOptions(id=B, whole_log=True))
        await writer.close()
        db = Database(bucket, runtime)
        with pytest.raises(InvalidError, match="give the segment extractor, 'first byte'"):
            await restore(db.files, B)
        await restore(db.files, A)
        assert await db.values() == {b"a1": b"1", b"a2": b"2"}
        assert [segment.prefix for segment in (await db.manifest()).segments] == [b"a"]
        await restore(db.files, B, RestoreOptions(extractor=FirstByte()))
        assert await db.values() == {b"a1": b"1", b"a2": b"2", b"b1": b"3"}
        assert [segment.prefix for segment in (await db.manifest()).segments] == [b"a", b"b"]

    simulate(scenario, 1)


def test_a_crash_at_any_request_leaves_one_state_or_the_other() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        options = RestoreOptions(keep_id=B)

        async def world() -> MemoryStore:
            store = CountingStore(runtime)
            await changed_since(runtime, store)
            return store

        async def work(store: ObjectStore) -> None:
            await restore(DatabaseFiles(store, "parent", runtime), A, options)

        async def afterwards(bucket: MemoryStore) -> None:
            db = Database(bucket, runtime, "parent")
            left = await db.values()
            assert left in (ROWS, LATER)
            before = await db.manifest()
            await work(bucket)
            assert await db.values() == ROWS
            assert await scan(await db.files.checkpoint(B)) == LATER
            if left == ROWS:
                # It was done, only the answer was lost: nothing is done twice.
                assert await db.manifest() == before
            # A restore that stops before its end leaves a checkpoint that expires, and nothing more.
            await runtime.sleep(PREPARED_MS / 1000 + 1)
            await collect_once(db.files, EAGERLY)
            assert {each.id for each in await list_checkpoints(db.files)} == {A, B}
            assert await db.values() == ROWS

        assert await at_every_request(world, work, afterwards) > 15

    simulate(scenario, 1)


def test_a_writer_that_comes_in_between_wins() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await changed_since(runtime)
        bucket = db.store
        put = bucket.put
        opened: list[Writer] = []

        # Somebody opens the database as soon as the rows of the old log are on their way.
        async def interrupted(key: str, *args: object, **settings: object) -> str:
            if "/compacted/" in key and not opened:
                opened.append(await Writer.open(db.files, WriterOptions()))
            return await put(key, *args, **settings)  # type: ignore[arg-type]

        bucket.put = interrupted  # type: ignore[method-assign]
        with pytest.raises(Fenced, match="stop that process"):
            await restore(db.files, A)
        await opened[0].close()
        assert await db.values() == LATER

    simulate(scenario, 1)


@pytest.mark.parametrize("status", [CompactionStatus.COMPACTED, CompactionStatus.SCHEDULED])
def test_a_compaction_of_before_is_not_taken_for_one_of_the_restored_runs(status: CompactionStatus) -> None:
    """Run 0 keeps its id when a compaction adds rows to it. A job on run 0 of before the restore is of no use after it."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        for value in (b"old", b"new"):
            await db.flush({b"k": value})
            await runtime.sleep(1)
            await db.compact()
            await runtime.sleep(1)
            if value == b"old":
                await create_checkpoint(db.files, CheckpointOptions(id=A))
        output, _ = await db.merged()
        outputs = Ssts.of([output] if status is CompactionStatus.COMPACTED else [])
        job = Compaction(Ulid.new(runtime), TieredSpec((), (0,), 0), status, outputs=outputs)
        await db.books.update(lambda old: old.with_job(job))
        await restore(db.files, A)
        assert await db.values() == {b"k": b"old"}
        coordinator = Coordinator(
            db.files, db.books, await take_epoch(db.files, db.books), CompactorOptions(worker=None)
        )
        await coordinator.turn(plan=False)
        assert await db.values() == {b"k": b"old"}
        ended = (await db.books.read_latest()).value.job(job.id)
        assert ended is not None
        assert ended.status is CompactionStatus.FAILED

    simulate(scenario, 1)


async def restored_by_two(runtime: SimulatedRuntime, *, log: bool = False) -> None:
    """The next process takes up a restore while the one before ends it, and work has gone on since."""
    db = await changed_since(runtime)
    options, written = RestoreOptions(keep_id=B), {b"new": b"1"} if log else {}
    read = restoring.read_kept

    async def slow(files: DatabaseFiles, newest: Manifest, id: UUID) -> Manifest:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(restoring, "read_kept", read)
            await restore(db.files, A, options)
        for key, value in written.items():
            writer = await Writer.open(db.files, WriterOptions())
            await (await writer.write([Change(key, value)])).durable()
            await writer.close()
        return await read(files, newest, id)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(restoring, "read_kept", slow)
        done = await restore(db.files, A, options)
    assert done.kept == B
    assert await scan(await db.files.checkpoint(B)) == LATER, "what was there before the restore is lost"
    assert await db.values() == {**ROWS, **written}


@pytest.mark.parametrize("log", [False, True])
def test_two_that_restore_at_once_keep_what_was_there(log: bool) -> None:
    simulate(lambda runtime: restored_by_two(runtime, log=log), 1)
