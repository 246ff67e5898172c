"""Softly destroyed databases, from a collector's side: when they go, what goes with them, and what it says before."""

from __future__ import annotations

import pytest

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.admin.destroying import destroy_softly, time_key, undelete
from slate_engine.gc.collector import Collector, collect_once
from slate_engine.gc.options import GcOptions, Kind, Task, dry
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.server.config import GcConfig
from slate_engine.server.roles.gc import options_of
from slate_engine.state.destroy import claimed_for_deletion
from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.gc.test_collector import busy_database

OPTIONS = GcOptions(destroyed=Task(min_age=1000))


def test_a_dry_run_tells_every_object_that_would_go_and_then_it_does() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await destroy_softly(db.files)
        early = await collect_once(db.files, dry(OPTIONS))
        assert early.waiting is not None
        assert "can be undeleted until 2023-11-14" in early.waiting
        await runtime.sleep(7200)  # the grace and the checkpoint are over
        assert isinstance(db.store, MemoryStore)
        everything = {key: found.meta.size for key, (found, _) in db.store._objects.items()}
        said = await collect_once(db.files, dry(OPTIONS))
        assert not said.gone
        assert {each.name: each.size for each in said.kind(Kind.DESTROYED).garbage} == everything
        assert db.store._objects.keys() == everything.keys()
        done = await collect_once(db.files, OPTIONS)
        assert done.gone
        assert list(done) == list(said)
        assert not db.store._objects

    simulate(scenario, 1)


def test_until_then_its_garbage_is_collected_as_ever_and_what_it_needs_stays() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        before = await db.values()
        await destroy_softly(db.files)
        await runtime.sleep(900)
        report = await collect_once(db.files, OPTIONS)
        assert report.waiting is not None
        assert {Kind.MANIFESTS, Kind.COMPACTED} <= {each.kind for each in report}
        await undelete(db.files)
        assert await db.values() == before

    simulate(scenario, 1)


def test_a_checkpoint_holds_it_for_as_long_as_it_lives() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        made = await create_checkpoint(db.files, CheckpointOptions(lifetime_ms=20_000_000))
        await destroy_softly(db.files)
        collector = Collector(db.files, OPTIONS)
        await runtime.sleep(10_000)
        report = await collector.collect()
        assert report.waiting is not None
        assert str(made.id) in report.waiting
        await runtime.sleep(10_000)
        assert (await collector.collect()).gone

    simulate(scenario, 1)


def test_who_is_not_to_collect_them_says_so() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await destroy_softly(db.files)
        await runtime.sleep(1e6)
        report = await collect_once(db.files, GcOptions(destroyed=None))
        assert (report.gone, report.waiting) == (
            False,
            "it is destroyed, and collecting destroyed databases is switched off",
        )

    simulate(scenario, 1)


def test_without_an_end_of_the_grace_only_what_somebody_began_is_ended() -> None:
    """As the collector of a Kubernetes object is told: whether the bytes go is decided elsewhere, at the last moment."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await destroy_softly(db.files)
        await runtime.sleep(1e7)
        options = options_of(GcConfig(delete_grace=None))
        report = await collect_once(db.files, options)
        assert not report.gone
        assert report.waiting is not None
        assert "until somebody deletes it for good" in report.waiting
        await undelete(db.files)
        await destroy_softly(db.files)
        await db.files.manifests.update(lambda old: claimed_for_deletion(old, now_ms=runtime.now_ms()))
        assert (await collect_once(db.files, options)).gone

    simulate(scenario, 1)


@pytest.mark.parametrize("left", ["manifest and boundaries", "manifest"])
def test_a_collector_that_runs_for_long_ends_what_another_has_begun(left: str) -> None:
    """It has seen the boundaries, and they are gone: a loss in any other case."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(7200)
        collector = Collector(db.files, OPTIONS)
        await collector.collect()
        assert await db.names("gc")
        await destroy_softly(db.files)
        await db.files.manifests.update(lambda old: claimed_for_deletion(old, now_ms=runtime.now_ms()))
        folders = ("db/compacted/", "db/compactions/", "db/wal/", *(("db/gc/",) if left == "manifest" else ()))
        gone = [meta.key for folder in folders async for page in db.store.list(folder) for meta in page]
        await db.store.delete(gone)
        assert (await collector.collect()).gone
        assert await db.names("manifest") == []
        assert (await collector.collect()).gone

    simulate(scenario, 1)


def test_a_collector_that_runs_for_long_takes_what_comes_when_all_is_gone() -> None:
    """Somebody's manifest was on its way until then: to one who remembers the boundary that is no loss, either."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(7200)
        await destroy_softly(db.files)
        late = await db.files.manifests.objects.latest()
        assert late is not None
        collector, other = Collector(db.files, OPTIONS), Collector(db.files, OPTIONS)
        await collector.collect()
        await runtime.sleep(7200)
        assert (await other.collect()).gone
        await db.store.put(db.files.manifests.objects.key(late.id), late.data)
        assert (await collector.collect()).gone
        assert await db.names("manifest") == []

    simulate(scenario, 1)


def test_a_lost_boundary_of_a_living_database_is_an_error() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await runtime.sleep(7200)
        collector = Collector(db.files, OPTIONS)
        await collector.collect()
        await db.store.delete(["db/gc/manifest.boundary"])
        with pytest.raises(BoundaryLost):
            await collector.collect()

    simulate(scenario, 1)


def test_a_dry_run_writes_nothing_even_if_the_destroyer_died_before_it_had_written_the_time() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await busy_database(runtime)
        await destroy_softly(db.files)
        await db.store.delete([time_key(db.files)])
        await collect_once(db.files, dry(OPTIONS))
        assert await db.names("gc") == ["compactor_epoch"]
        await collect_once(db.files, OPTIONS)
        assert await db.names("gc") == ["compactor_epoch", "destroyed_at_s"]

    simulate(scenario, 1)


def test_a_boundary_that_came_when_all_was_gone_is_deleted() -> None:
    """A collector advances a boundary, and the request arrives after another one has deleted the database."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        files = DatabaseFiles(store, "db", runtime)
        late = "db/gc/manifest.boundary"
        await store.put(late, b"7")
        assert (await collect_once(files, OPTIONS)).gone
        assert late in store._objects, "whatever deletes the database may still be at it"
        await runtime.sleep(3600)
        await store.put("db/wal/00000000000000000001.sst", b"")
        assert (await collect_once(files, OPTIONS)).gone
        assert late in store._objects, "it is not all there is"
        await store.delete(["db/wal/00000000000000000001.sst"])
        assert (await collect_once(files, dry(OPTIONS))).gone
        assert late in store._objects
        assert (await collect_once(files, OPTIONS)).gone
        assert not store._objects

    simulate(scenario, 1)
