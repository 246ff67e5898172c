"""One pass after another: what goes, what stays, what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

import pytest

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint, list_checkpoints
from slate_engine.errors import DataError
from slate_engine.format.ids import Ulid
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.options import GcOptions, Kind, Task, dry
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.store.cost import S3_STANDARD
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.workshop import CountingStore, Database, scan


async def busy_database(runtime: SimulatedRuntime, store: MemoryStore | None = None) -> Database:
    """Two rounds of flushes and compactions, a log that is partly replayed, and a checkpoint of the first round."""
    db = await Database(store or CountingStore(runtime), runtime).make()
    for id in (1, 2, 3, 4):
        await db.log(id, {b"a": b"logged"} if id != 2 else None)
    for turn in (1, 2):
        await runtime.sleep(60)
        await db.flush({b"a": b"%d" % turn})
        await runtime.sleep(1)
        sst = await db.upload(db.rows({b"b": b"%d" % turn}))
        await db.publish(sst, db.seq, wal_id=2 * turn - 1)
        await runtime.sleep(1)
        await db.compact()
        if turn == 1:
            await create_checkpoint(db.files, CheckpointOptions(lifetime_ms=3_600_000, name="first round"))
    await runtime.sleep(1)
    await db.flush({b"c": b"3"})
    return db


def test_a_pass_deletes_what_nothing_needs_and_nothing_else() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        before = await db.values()
        await runtime.sleep(1000)
        report = await collect_once(db.files)
        assert report.errors == []
        # The first round's own SSTs are kept by its checkpoint; the second round's inputs are not. The newest book has the
        # second compaction, which protects what is as young as it.
        assert len(await db.names("compacted")) == 3
        assert await db.names("manifest") == ["00000000000000000005.manifest", "00000000000000000009.manifest"]
        assert await db.names("compactions") == ["00000000000000000005.compactions"]
        # The fence stays, and so does the file at which replay begins.
        assert [int(name[:20]) for name in await db.names("wal")] == [2, 3, 4]
        assert await db.names("gc") == ["compactions.boundary", "manifest.boundary"]
        assert await db.values() == before
        assert {key: value for key, value in before.items() if key != b"a"} == {b"b": b"2", b"c": b"3"}

    simulate(scenario, 1)


def test_when_the_checkpoint_expires_its_files_go_too() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        before = await db.values()
        await runtime.sleep(7200)
        report = await collect_once(db.files)
        assert [each.name for each in report.kind(Kind.CHECKPOINTS).garbage] != []
        assert await list_checkpoints(db.files) == []
        assert len(await db.names("compacted")) == 2
        assert await db.names("manifest") == ["00000000000000000010.manifest"]  # the one without the checkpoint
        assert await db.values() == before

    simulate(scenario, 1)


def test_a_dry_run_says_the_same_and_does_nothing() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await busy_database(runtime, store)
        await runtime.sleep(7200)  # the checkpoint has expired, and what it kept goes with it
        everything = sorted(store._objects)
        store.take()
        said = await collect_once(db.files, dry(GcOptions()))
        assert not store.take().keys() & {"put", "delete", "copy", "post"}
        assert sorted(store._objects) == everything
        assert all(kind.dry_run for kind in said.kinds)
        done = await collect_once(db.files)
        assert [(each.kind, each.name, each.size) for each in said] == [(e.kind, e.name, e.size) for e in done]
        assert {Kind.CHECKPOINTS, Kind.MANIFESTS, Kind.WAL, Kind.COMPACTED} <= {each.kind for each in said}
        assert all(each.why for each in said)
        assert said.size == sum(each.size for each in said) > 0
        assert said.dollars_a_month(S3_STANDARD) == pytest.approx(said.size / 2**30 * 0.023)

    simulate(scenario, 1)


def test_what_an_expired_checkpoint_keeps_stays_while_the_checkpoint_does() -> None:
    """Whoever may not remove the checkpoint must not act as if it were gone."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        (checkpoint,) = await list_checkpoints(db.files)
        await runtime.sleep(7200)
        report = await collect_once(db.files, GcOptions(checkpoints=Task(dry_run=True)))
        assert [each.name for each in report.kind(Kind.CHECKPOINTS).garbage] == [str(checkpoint.id)]
        assert report.kind(Kind.COMPACTED).garbage
        assert await scan(await db.files.checkpoint(checkpoint.id)) == {b"a": b"1", b"b": b"1"}

    simulate(scenario, 1)


def test_progress_is_told() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(7200)
        told: Counter[Kind] = Counter()
        report = await collect_once(db.files, GcOptions(), lambda kind, objects: told.update({kind: objects}))
        deleting = (Kind.MANIFESTS, Kind.WAL, Kind.COMPACTED, Kind.COMPACTIONS)
        assert told == {kind: len(report.kind(kind).garbage) for kind in deleting}

    simulate(scenario, 1)


def test_an_idle_pass_costs_a_look_at_manifest_and_book() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await busy_database(runtime, store)
        await runtime.sleep(1000)
        collector = Collector(db.files)
        await collector.collect()
        await runtime.sleep(600)
        await collector.collect()  # what the first pass wrote has come of age by now
        store.take()
        await runtime.sleep(600)
        report = await collector.collect()
        assert not list(report)
        requests = store.take()
        # Of each: the boundary, a listing from there on, the newest object, and the boundary again.
        assert requests == {"list": 2, "get": 6}
        # What was seen less than a minute ago is believed: a probe for the successor, and the boundary.
        await runtime.sleep(30)
        await collector.collect()
        assert store.take() == {"get": 4}

    simulate(scenario, 1)


def test_a_first_pass_with_nothing_to_do_costs_a_look_and_a_listing_of_each_folder() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await busy_database(runtime, store)
        await collect_once(db.files)
        await db.names("manifest")
        (checkpoint,) = await list_checkpoints(db.files)
        await create_checkpoint(db.files, CheckpointOptions(source=checkpoint.id))
        store.take()
        assert not [each for each in await collect_once(db.files) if each.kind is not Kind.FENCES]
        # The look as in an idle pass, one manifest that two checkpoints keep, and four folders.
        assert store.take() == {"list": 2 + 4, "get": 6 + 1}

    simulate(scenario, 1)


def test_the_log_is_listed_no_further_than_it_is_replayed() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await Database(store, runtime).make()
        for id in range(1, 5001):
            store._store(db.files.paths.wal(id), b"x", "")
        sst = await db.upload(db.rows({b"a": b"1"}))
        await db.publish(sst, db.seq, wal_id=10)
        await runtime.sleep(1000)
        store.take()
        only_wal = GcOptions(**{kind.name.lower(): None for kind in Kind if kind is not Kind.WAL})  # type: ignore[arg-type]
        report = await Collector(db.files, only_wal).collect({Kind.WAL})
        assert len(report.kind(Kind.WAL).garbage) == 9
        assert store.take()["list"] == 1 + 1  # one for the manifest

    simulate(scenario, 1)


def test_between_sweeps_only_what_is_new_is_listed_and_orphans_wait() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await Database(store, runtime).make()
        for turn in range(30):
            await db.flush({b"%d" % turn: b""})
            await runtime.sleep(1)
        collector = Collector(db.files, GcOptions(sweep_interval=10_800.0))
        await collector.collect()
        await runtime.sleep(4000)
        await db.flush({b"x": b""})
        await collector.collect()
        # An orphan that arrives much later than it was begun: only a whole listing finds it.
        late = Ulid.of(runtime.now_ms() - 2 * 3_600_000, 7)
        store._store(db.files.paths.compacted(late), b"late", "")
        for turn in range(2):
            await db.flush({b"x": b"%d" % turn})
            await runtime.sleep(1)
            await db.compact()
            await runtime.sleep(1)
        await db.flush({b"y": b""})
        await runtime.sleep(1000)
        gone = {each.name for each in (await collector.collect()).kind(Kind.COMPACTED).garbage}
        # 31 inputs of the first compaction from the old listing, and what came and went since then from the new one.
        assert len(gone) == 31 + 1 + 1 + 1
        assert db.files.paths.compacted(late) not in gone
        await runtime.sleep(10_800)
        swept = await collector.collect()
        assert [each.name for each in swept.kind(Kind.COMPACTED).garbage] == [db.files.paths.compacted(late)]

    simulate(scenario, 1)


def test_what_was_too_young_is_found_as_soon_as_it_is_not() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(100)
        collector = Collector(db.files)
        assert not [each for each in await collector.collect() if each.kind is not Kind.FENCES]
        await runtime.sleep(102)
        first = {each.kind for each in await collector.collect()}
        assert Kind.MANIFESTS in first
        await runtime.sleep(200)
        left = await collector.collect()
        assert left.kind(Kind.COMPACTED).garbage or Kind.COMPACTED in first
        await runtime.sleep(600)
        assert not [each for each in await collector.collect() if each.kind is not Kind.FENCES]

    simulate(scenario, 1)


def test_a_log_in_another_store_is_collected_there() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        logs = MemoryStore(runtime)
        for id in range(1, 5):
            await logs.put(db.files.paths.wal(id), b"rows")
        await runtime.sleep(1000)
        files = DatabaseFiles(db.store, "db", runtime, wal_store=logs)
        here = await db.names("wal")
        report = await collect_once(files)
        assert [each.name for each in report.kind(Kind.WAL).garbage] == [db.files.paths.wal(id) for id in (1, 2)]
        assert sorted(logs._objects) == [db.files.paths.wal(id) for id in (3, 4)]
        assert await db.names("wal") == here

    simulate(scenario, 1)


def test_deletes_go_out_in_batches() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await Database(store, runtime).make()
        for number in range(2500):
            store._store(db.files.paths.compacted(Ulid.of(runtime.now_ms(), number)), b"orphan", "")
        await runtime.sleep(1)
        await db.flush({b"a": b"1"})
        await runtime.sleep(1)
        await db.compact()
        await runtime.sleep(1000)
        store.take()
        report = await collect_once(db.files, GcOptions(manifests=None, compactions=None, checkpoints=None))
        assert len(report.kind(Kind.COMPACTED).garbage) == 2500
        assert store.take()["delete"] == 3

    simulate(scenario, 1)


def test_a_missing_manifest_of_a_checkpoint_stops_what_depends_on_it() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        (checkpoint,) = await list_checkpoints(db.files)
        await db.store.delete([f"db/manifest/{checkpoint.manifest_id:020d}.manifest"])
        await runtime.sleep(1000)
        ssts, wal = await db.names("compacted"), await db.names("wal")
        report = await collect_once(db.files)
        assert [type(error) for error in report.errors] == [DataError] * 3
        assert str(checkpoint.id) in str(report.errors[0])
        assert (await db.names("compacted"), await db.names("wal")) == (ssts, wal)
        assert report.kind(Kind.MANIFESTS).garbage  # the others are none the worse for it

    simulate(scenario, 1)


def test_a_checkpoint_that_goes_while_a_pass_looks_is_no_loss() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        (checkpoint,) = await list_checkpoints(db.files)
        await runtime.sleep(1000)
        collector = Collector(db.files)
        look = collector._book_and_manifest

        async def overtaken(kinds: Collection[Kind]) -> Any:
            found = await look(kinds)
            await delete_checkpoint(db.files, checkpoint.id)
            assert (await collect_once(db.files)).kind(Kind.MANIFESTS).garbage
            return found

        collector._book_and_manifest = overtaken  # type: ignore[method-assign]
        report = await collector.collect()
        assert report.errors == []
        assert await db.values() != {}

    simulate(scenario, 1)


def test_foreign_objects_are_left_alone() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        strange = ["manifest/x.txt", "wal/zzz", "compacted/readme.txt", "compacted/sub/a.sst", "gc/anything", "ANY"]
        strange += [f"compacted/{'8' + 25 * 'Z'}.sst", "compacted/0000000000000000000000000u.sst"]
        for name in strange:
            await db.store.put(f"db/{name}", b"?")
        await runtime.sleep(7200)
        report = await collect_once(db.files, GcOptions(fences=Task()))
        assert len(list(report)) > 5
        for name in strange:
            assert (await db.store.get(f"db/{name}")).data == b"?"

    simulate(scenario, 1)


def test_nothing_is_there_to_collect_where_no_database_is() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        assert (await collect_once(Database(MemoryStore(runtime), runtime).files)).gone

    simulate(scenario, 1)


@pytest.mark.parametrize("boundaries", [True, False])
def test_boundaries_can_be_switched_off_for_stores_without_conditional_updates(boundaries: bool) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(1000)
        report = await collect_once(db.files, GcOptions(boundary_files=boundaries))
        assert report.errors == []
        assert len(await db.names("manifest")) == 2
        assert await db.names("gc") == (["compactions.boundary", "manifest.boundary"] if boundaries else [])

    simulate(scenario, 1)
