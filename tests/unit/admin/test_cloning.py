"""Clones: what they show, what they share, what they refuse, and that no crash leaves anything but one good clone."""

from __future__ import annotations

import asyncio
import itertools
from uuid import UUID

import pytest

from slate_engine.admin import cloning
from slate_engine.admin.checkpoints import (
    CheckpointOptions,
    NeededByClone,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import NotThisClone, create_clone
from slate_engine.admin.destroying import destroy_hard, destroy_softly, objects_of, undelete
from slate_engine.errors import DataError, InvalidError
from slate_engine.format.key_range import ALL, Bound, KeyRange
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.checkpoints import CheckpointExpired, CheckpointMissing, NotInitialized
from slate_engine.state.clones import InvalidUnion
from slate_engine.state.commit import NothingStored
from slate_engine.state.tombstone import Destroyed
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore, StoreUnavailable
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.crashes import CrashingStore, at_every_request, until_its_death
from tests.unit.admin.workshop import CountingStore, Database

EAGER = Task(min_age=0)
EAGERLY = GcOptions(manifests=EAGER, wal=EAGER, compacted=EAGER, compactions=EAGER)
A, B = (UUID(int=number, version=4) for number in (1, 2))
REQUESTS = {"list": 6, "get": 20, "put": 4, "head": 6}
"""What a clone of one database costs, beside a copy for each WAL file that is not in an SST yet."""


async def parent(runtime: SimulatedRuntime, store: MemoryStore | None = None, path: str = "parent") -> Database:
    """Two SSTs, a replayed and an unreplayed part of the log, and a fence between them."""
    db = await Database(store or CountingStore(runtime), runtime, path).make()
    await db.log(1, {b"a": b"1"})
    await db.publish(await db.upload(db.rows({b"a": b"1"})), db.seq, wal_id=1)
    await db.flush({b"b": b"2"})
    await db.log(2, None)
    await db.log(3, {b"c": b"3"})
    return db


ROWS = {b"a": b"1", b"b": b"2", b"c": b"3"}


def beside(db: Database, path: str) -> Database:
    return Database(db.store, db.runtime, path)


async def held_by(db: Database) -> list[str | None]:
    return [checkpoint.name for checkpoint in await list_checkpoints(db.files)]


def test_a_clone_shows_the_same_and_goes_its_own_way() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        assert await clone.values() == ROWS
        # SSTs are shared, the log is copied.
        assert await clone.names("compacted") == []
        assert [int(name[:20]) for name in await clone.names("wal")] == [2, 3]
        assert await held_by(db) == ["clone clone"]
        await db.flush({b"a": b"parent's", b"c": b"3"})
        writer = await Writer.open(clone.files, WriterOptions())
        await writer.flush_memtable()
        await writer.close()
        clone.seq = 100
        await clone.flush({b"b": b"clone's"})
        assert await db.values() == {**ROWS, b"a": b"parent's"}
        assert await clone.values() == {**ROWS, b"b": b"clone's"}

    simulate(scenario, 1)


def test_what_the_parent_has_dropped_stays_for_the_clone_until_it_is_detached() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        for database in (db, clone):
            await runtime.sleep(1)
            await database.flush({b"x": b"9"})
            await runtime.sleep(1)
            await database.compact()
            await runtime.sleep(1)
            await database.flush({b"y": b"9"})
            await runtime.sleep(1)
            await collect_once(db.files, EAGERLY)
            if database is db:
                assert len(await db.names("compacted")) == 4  # two of them for the clone
                assert await clone.values() == ROWS
        # The clone has rewritten everything. Its collector lets the parent go: there first, and then here.
        assert [len(each.sst_ids) for each in (await clone.manifest()).external_dbs] == [0]
        report = await collect_once(clone.files, EAGERLY)
        assert report.errors == []
        assert (await clone.manifest()).external_dbs == ()
        assert await held_by(db) == []
        await runtime.sleep(1)
        await collect_once(db.files, EAGERLY)
        assert len(await db.names("compacted")) == 2
        assert await clone.values() == {**ROWS, b"x": b"9", b"y": b"9"}

    simulate(scenario, 1)


def test_a_checkpoint_of_the_clone_keeps_it_attached() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        kept = await create_checkpoint(clone.files)
        await clone.flush({b"x": b"9"})
        await clone.compact()
        await collect_once(clone.files, EAGERLY)
        assert len((await clone.manifest()).external_dbs) == 1
        await delete_checkpoint(clone.files, kept.id)
        await collect_once(clone.files, EAGERLY)
        assert (await clone.manifest()).external_dbs == ()
        assert await held_by(db) == []

    simulate(scenario, 1)


def test_a_clone_of_a_clone_reads_from_both() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone, second = beside(db, "clone"), beside(db, "second")
        await create_clone(clone.files, [CloneSource("parent")])
        clone.seq = 100
        await clone.flush({b"b": b"clone's", b"c": b"3"})
        await create_clone(second.files, [CloneSource("clone")])
        assert await second.values() == {**ROWS, b"b": b"clone's"}
        assert [(each.path, len(each.sst_ids)) for each in (await second.manifest()).external_dbs] == [
            ("parent", 2),
            ("clone", 1),
        ]
        assert await held_by(db) == ["clone clone", "clone second"]
        assert await held_by(clone) == ["clone second"]
        # The one in the middle may go as soon as nothing of it is needed; not before.
        with pytest.raises(InvalidError, match="clone second"):
            await destroy_hard(clone.files)

    simulate(scenario, 1)


def test_of_a_checkpoint() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A, lifetime_ms=10_000, whole_log=True))
        await db.flush({b"a": b"later"})
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent", A)])
        assert await clone.values() == ROWS
        assert (await clone.manifest()).external_dbs[0].source_checkpoint_id == A
        await runtime.sleep(11)
        with pytest.raises(CheckpointExpired):
            await create_clone(beside(db, "other").files, [CloneSource("parent", A)])
        with pytest.raises(CheckpointMissing):
            await create_clone(beside(db, "other").files, [CloneSource("parent", UUID(int=2))])
        assert await beside(db, "other").names("manifest") == []
        assert (await list_checkpoints(db.files))[0].id == A  # a user's checkpoint is not ours to delete

    simulate(scenario, 1)


def test_a_range_of_keys() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(CountingStore(runtime), runtime, "parent").make()
        await db.flush({b"a": b"1", b"b": b"1", b"c": b"1"})
        await db.flush({b"d": b"2"})
        part = beside(db, "part")
        above_a = KeyRange(Bound.excluded(b"a"), Bound.included(b"c"))
        await create_clone(part.files, [CloneSource("parent", keys=above_a)], KeyRange.half_open(None, b"c"))
        assert await part.values() == {b"b": b"1"}
        # Of the second SST nothing is shown, so nothing is kept for this clone.
        assert [len(each.sst_ids) for each in (await part.manifest()).external_dbs] == [1]
        with pytest.raises(InvalidError, match="none in common"):
            await create_clone(
                beside(db, "no").files, [CloneSource("parent", keys=above_a)], KeyRange.closed(b"x", b"y")
            )

    simulate(scenario, 1)


def test_several_with_disjoint_keys() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        one, two = [await Database(store, runtime, path).make() for path in ("one", "two")]
        await one.flush({b"a": b"1"})
        await one.compact()
        await one.flush({b"b": b"1"})
        two.seq = 50
        await two.flush({b"b": b"2"})
        await two.compact()
        await two.flush({b"c": b"2"})
        both = beside(one, "both")
        with pytest.raises(InvalidUnion, match=r"'one' and 'two' overlap"):
            await create_clone(both.files, [CloneSource("one"), CloneSource("two")])
        assert await held_by(one) == await held_by(two) == []
        await create_clone(both.files, [CloneSource("one", keys=KeyRange.half_open(None, b"b")), CloneSource("two")])
        assert await both.values() == {b"a": b"1", b"b": b"2", b"c": b"2"}
        manifest = await both.manifest()
        assert [run.id for run in manifest.root.runs] == [1, 0]
        assert (manifest.last_l0_seq, manifest.writer_epoch, manifest.replay_after_wal_id) == (52, 0, 0)
        assert [external.path for external in manifest.external_dbs] == ["one", "two"]
        # A clone of it, united with one of its parents: what both show of one parent is one entry.
        again = beside(one, "again")
        await create_clone(
            again.files,
            [
                CloneSource("both", keys=KeyRange.half_open(b"b", None)),
                CloneSource("one", keys=KeyRange.closed(b"a", b"a")),
            ],
        )
        assert await again.values() == {b"a": b"1", b"b": b"2", b"c": b"2"}

    simulate(scenario, 1)


def test_rows_that_are_only_in_the_log_cannot_be_cut() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        other = await beside(db, "other").make()
        await other.flush({b"x": b"1"})
        for sources in (
            [CloneSource("parent", keys=KeyRange.closed(b"a", b"b"))],
            [CloneSource("other"), CloneSource("parent")],
        ):
            with pytest.raises(InvalidError, match="flush its memtable"):
                await create_clone(beside(db, "clone").files, sources)
            assert await held_by(other) == []
        assert await held_by(db) == []  # nothing is left of the attempt
        # The log is no obstacle once an SST holds its rows, even if replay would begin before it.
        await db.publish(await db.upload(db.rows({b"c": b"3"})), db.seq, wal_id=2)
        await create_clone(beside(db, "clone").files, [CloneSource("parent", keys=KeyRange.closed(b"a", b"b"))])
        assert await beside(db, "clone").values() == {b"a": b"1", b"b": b"2"}

    simulate(scenario, 1)


def test_what_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        with pytest.raises(InvalidError, match="needs a source"):
            await create_clone(clone.files, [])
        with pytest.raises(InvalidError, match="itself"):
            await create_clone(db.files, [CloneSource("/parent/")])
        with pytest.raises(InvalidError, match="once only"):
            await create_clone(clone.files, [CloneSource("parent"), CloneSource("parent")])
        with pytest.raises(NothingStored, match="nowhere"):
            await create_clone(clone.files, [CloneSource("nowhere")])
        other = await beside(db, "other").make()
        with pytest.raises(NotThisClone, match="no clone of 'parent'"):
            await create_clone(other.files, [CloneSource("parent")])
        await create_clone(clone.files, [CloneSource("parent")], id=A)
        with pytest.raises(NotThisClone, match="at checkpoint"):
            await create_clone(clone.files, [CloneSource("parent", A)])
        (kept,) = await list_checkpoints(db.files)
        await delete_checkpoint(db.files, kept.id, force=True)
        with pytest.raises(DataError, match="does not keep its SSTs"):
            await create_clone(clone.files, [CloneSource("parent")], id=A)

    simulate(scenario, 1)


@pytest.mark.parametrize("pause", [0, 900], ids=["at once", "after the source has expired"])
def test_a_crash_at_any_request_and_a_repetition_give_one_good_clone(pause: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        async def world() -> MemoryStore:
            store = CountingStore(runtime)
            db = await parent(runtime, store, "grandparent")
            await create_clone(beside(db, "parent").files, [CloneSource("grandparent")])
            second = beside(db, "parent")
            second.seq = 100
            await second.flush({b"b": b"p", b"c": b"3"})
            return store

        async def work(store: ObjectStore) -> None:
            await create_clone(DatabaseFiles(store, "clone", runtime), [CloneSource("parent")], id=A)

        async def afterwards(bucket: MemoryStore) -> None:
            if pause:
                await runtime.sleep(pause)
                for path in ("grandparent", "parent"):
                    await collect_once(DatabaseFiles(bucket, path, runtime), EAGERLY)
            await work(bucket)
            clone = Database(bucket, runtime, "clone")
            assert await clone.values() == {**ROWS, b"b": b"p"}
            # What did not come to the first manifest expires; nothing else is left.
            await runtime.sleep(301)
            for path in ("grandparent", "parent"):
                await collect_once(DatabaseFiles(bucket, path, runtime), EAGERLY)
            finals = {each.path: each.final_checkpoint_id for each in (await clone.manifest()).external_dbs}
            left = await list_checkpoints(DatabaseFiles(bucket, "parent", runtime))
            assert [each.id for each in left] == [finals["parent"]]
            left = await list_checkpoints(DatabaseFiles(bucket, "grandparent", runtime))
            assert [each.name for each in left] == ["clone parent", "clone clone"]
            assert left[1].id == finals["grandparent"]
            assert await clone.values() == {**ROWS, b"b": b"p"}

        assert await at_every_request(world, work, afterwards) > 20

    simulate(scenario, 1)


@pytest.mark.parametrize("step", ["_keep", "_copy_log"])
@pytest.mark.parametrize("pause", [0, 900], ids=["at once", "after the source has expired"])
def test_whoever_asks_for_other_keys_does_not_get_what_somebody_else_began(
    pause: int, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    low, high = KeyRange.half_open(None, b"b"), KeyRange.half_open(b"b", None)
    rows = {b"a": b"1", b"b": b"1", b"c": b"2"}

    async def stopped(*arguments: object) -> None:
        raise StoreUnavailable("stopped")

    async def scenario(runtime: SimulatedRuntime) -> None:
        for begun, wanted in itertools.product((low, high, ALL), repeat=2):
            db = await Database(CountingStore(runtime), runtime, "parent").make()
            await db.flush({b"a": b"1", b"b": b"1"})
            await db.flush({b"c": b"2"})
            clone = beside(db, "clone")
            with monkeypatch.context() as patch:
                patch.setattr(cloning, step, stopped)
                with pytest.raises(StoreUnavailable):
                    await create_clone(clone.files, [CloneSource("parent", keys=begun)])
            await runtime.sleep(pause)
            await create_clone(clone.files, [CloneSource("parent", keys=wanted)])
            assert await clone.values() == {key: value for key, value in rows.items() if key in wanted}
            await runtime.sleep(301)
            await collect_once(db.files)
            assert await held_by(db) == ["clone clone"]

    simulate(scenario, 1)


def test_two_that_make_the_same_clone_at_once_make_one() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await asyncio.gather(*(create_clone(clone.files, [CloneSource("parent")]) for _ in range(5)))
        assert await clone.values() == ROWS
        await runtime.sleep(301)
        await collect_once(db.files)
        assert await held_by(db) == ["clone clone"]

    simulate(scenario, 1)


def test_the_parent_is_destroyed_midway() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        for at in range(1, 100):
            bucket = CountingStore(runtime)
            db = await parent(runtime, bucket)
            store = CrashingStore(bucket, at, carried_out=True)
            clone = DatabaseFiles(store, "clone", runtime)
            await until_its_death(create_clone(clone, [CloneSource("parent")]))
            assert store.dead
            standing = await DatabaseFiles(bucket, "clone", runtime).manifests.latest()
            if standing is not None and "clone clone" in await held_by(db):
                break
        else:
            raise AssertionError("it never came so far")
        # The clone is begun and the parent keeps its SSTs; now the parent is destroyed.
        await destroy_softly(db.files)
        files = DatabaseFiles(bucket, "clone", runtime)
        with pytest.raises(Destroyed):
            await create_clone(files, [CloneSource("parent")])
        assert "clone clone" not in await held_by(db)
        with pytest.raises(NotInitialized):
            await files.latest()
        # It comes back, and so does the clone.
        await undelete(db.files)
        await create_clone(files, [CloneSource("parent")])
        assert await Database(bucket, runtime, "clone").values() == ROWS

    simulate(scenario, 1)


@pytest.mark.parametrize("ssts", [1, 30])
def test_it_costs_the_same_however_many_ssts_there_are(ssts: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await Database(store, runtime, "parent").make()
        for number in range(ssts):
            await db.flush({b"%d" % number: b""})
        store.take()
        await create_clone(beside(db, "clone").files, [CloneSource("parent")])
        # Two commits in the parent, two in the clone.
        assert store.take() == REQUESTS
        await create_clone(beside(db, "other").files, [CloneSource("parent")])
        assert store.take() == REQUESTS

    simulate(scenario, 1)


def test_a_destroyed_grandparent_is_named() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        await destroy_softly(db.files)
        assert await clone.values() == ROWS  # who has it already is not concerned
        with pytest.raises(Destroyed, match="database 'parent' was destroyed"):
            await create_clone(beside(db, "second").files, [CloneSource("clone")])
        assert [each.name for each in await list_checkpoints(db.files)] == ["clone clone"]

    simulate(scenario, 1)


def test_a_checkpoint_that_a_clone_needs_is_not_deleted() -> None:
    """Nor does it get an end. After the next compaction and collection of the parent the clone would miss SSTs."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        (final,) = await list_checkpoints(db.files)
        with pytest.raises(NeededByClone, match=f"checkpoint {final.id} keeps SSTs that clone 'clone' reads"):
            await delete_checkpoint(db.files, final.id)
        with pytest.raises(NeededByClone):
            await refresh_checkpoint(db.files, final.id, 60_000)
        assert await list_checkpoints(db.files) == [final]
        await refresh_checkpoint(db.files, final.id, None)
        await delete_checkpoint(db.files, final.id, force=True)
        assert await list_checkpoints(db.files) == []

    simulate(scenario, 1)


def test_a_checkpoint_whose_clone_does_not_need_it_is_deleted() -> None:
    """The clone is gone, or the name is one that a user chose."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("parent")])
        await create_checkpoint(db.files, CheckpointOptions(id=A, name="clone clone"))
        await create_checkpoint(db.files, CheckpointOptions(id=B, name="clone wars"))
        await delete_checkpoint(db.files, A)
        await delete_checkpoint(db.files, B)
        (final,) = await list_checkpoints(db.files)
        await clone.files.store.delete(await objects_of(clone.files))
        await delete_checkpoint(db.files, final.id)
        assert await list_checkpoints(db.files) == []

    simulate(scenario, 1)


def test_nothing_is_kept_by_a_name_that_somebody_else_could_have_given() -> None:
    """The checkpoint that a clone begins with is deleted by its name: one of a user must not be."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A, name="mine", whole_log=True))
        await create_clone(beside(db, "clone").files, [CloneSource("parent", A)])
        assert await held_by(db) == ["mine", "clone clone"]
        assert cloning.SOURCE_LIFETIME_MS == 300_000

    simulate(scenario, 1)
