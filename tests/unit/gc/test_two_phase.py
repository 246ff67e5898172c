"""Stores whose conditional writes are decided elsewhere: what their writers leave behind is collected, too."""

from __future__ import annotations

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.destroying import destroy_hard
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.options import GcOptions, Kind, Task, dry
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.record import intent
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.store.two_phase.doubles import LyingStore, MemoryTransactions
from tests.unit.admin.test_cloning import beside
from tests.unit.admin.workshop import Database

OPTIONS = GcOptions(two_phase=Task(min_age=3600))


def test_leftovers_go_when_they_are_old() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket, table = LyingStore(runtime), MemoryTransactions()
        db = await Database(TwoPhaseStore(bucket, table, runtime), runtime).make()
        await db.flush({b"a": b"1"})
        await db.log(1, {b"b": b"2"})
        # A writer that died before its record, and somebody who deletes objects behind our back.
        await bucket.put(intent("db/manifest/00000000000000000099.manifest", b"?", runtime).source, b"?")
        await bucket.delete(["db/manifest/00000000000000000001.manifest"])
        for _ in range(2):
            report = await collect_once(db.files, OPTIONS)
            assert report.errors == []
            assert report.kind(Kind.TWO_PHASE).garbage == []
            assert len(bucket.temporaries()) == 1
            await runtime.sleep(1000)
        await runtime.sleep(3600)
        said = (await collect_once(db.files, dry(OPTIONS))).kind(Kind.TWO_PHASE)
        assert len(bucket.temporaries()) == 1
        records = len(table.records)
        report = await collect_once(db.files, OPTIONS)
        assert [each.name for each in report.kind(Kind.TWO_PHASE).garbage] == ["1 temporaries", "1 records"]
        assert report.kind(Kind.TWO_PHASE).garbage == said.garbage
        assert said.size == 1
        assert bucket.temporaries() == []
        assert len(table.records) < records
        assert await db.values() == {b"a": b"1", b"b": b"2"}

    simulate(scenario, 1)


def test_what_a_dead_writer_had_won_is_finished_in_every_pass() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket, table = LyingStore(runtime), MemoryTransactions()
        store = TwoPhaseStore(bucket, table, runtime)
        db = await Database(store, runtime).make()
        collector, telling = Collector(db.files, OPTIONS), Collector(db.files, dry(OPTIONS))
        for number in range(2, 4):
            # Its record stands, so the write counts, but its writer died before the copy.
            key = f"db/manifest/{number:020d}.manifest"
            data = (await bucket.get(f"db/manifest/{1:020d}.manifest")).data
            record = intent(store._site.name(key), data, runtime)
            await bucket.put(store._site.key(record.source), data)
            assert await table.put_if_absent(record) is None
            await telling.collect()
            assert key not in bucket._objects
            assert (await collector.collect()).errors == []
            assert key in bucket._objects
            assert bucket.temporaries() == []

    simulate(scenario, 1)


def test_clones_and_deletions_work_there() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        bucket, table = LyingStore(runtime), MemoryTransactions()
        db = await Database(TwoPhaseStore(bucket, table, runtime), runtime).make()
        await db.log(1, {b"b": b"2"})
        clone = beside(db, "clone")
        await create_clone(clone.files, [CloneSource("db")])
        assert await clone.values() == {b"b": b"2"}
        await destroy_hard(clone.files)
        await destroy_hard(db.files)
        assert bucket.snapshot() == {}
        assert table.records == {}

    simulate(scenario, 1)
