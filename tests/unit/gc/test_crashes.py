"""A collector that dies at any of its requests leaves a database that is whole, and the next one finishes the work."""

from __future__ import annotations

from slate_engine.admin.checkpoints import list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.simulation.memo import remembering
from tests.unit.admin.crashes import at_every_request
from tests.unit.admin.workshop import Database
from tests.unit.gc.test_collector import busy_database

OPTIONS = GcOptions(**{kind.name.lower(): Task(min_age=300) for kind in Kind})  # type: ignore[arg-type]
"""Fences, too: here is no writer whom they could shut out."""


async def detachable_clone(runtime: SimulatedRuntime) -> MemoryStore:
    """A clone that has compacted all that it showed of its parent, with garbage of every kind."""
    store = MemoryStore(runtime)
    parent = await busy_database(runtime, store)
    clone = Database(store, runtime, "clone")
    await create_clone(clone.files, [CloneSource("db")])
    clone.seq = parent.seq
    for id in (5, 6):
        await clone.log(id, None if id == 5 else {b"d": b"4"})
    for turn in range(2):
        await clone.publish(await clone.upload(clone.rows({b"d": b"%d" % turn})), clone.seq, wal_id=7)
        await runtime.sleep(1)
        await clone.compact()
    await clone.flush({b"e": b"5"})
    await runtime.sleep(1000)
    return store


def test_a_crash_at_any_request_loses_nothing_and_the_next_pass_ends_what_is_left() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        original = await detachable_clone(runtime)

        async def world() -> MemoryStore:
            copy = MemoryStore(runtime)
            copy._objects, copy._keys = dict(original._objects), list(original._keys)
            copy._versions = original._versions
            return copy

        async def work(store: ObjectStore) -> None:
            assert (await collect_once(DatabaseFiles(store, "clone", runtime), OPTIONS)).errors == []

        async def afterwards(bucket: MemoryStore) -> None:
            clone = Database(bucket, runtime, "clone")
            values = {b"a": b"2", b"b": b"2", b"c": b"3", b"d": b"1", b"e": b"5"}
            assert await clone.values() == values
            if (await clone.manifest()).external_dbs == ():
                # The parent first: nothing but this entry knows which checkpoint there is ours.
                assert [each.name for each in await list_checkpoints(Database(bucket, runtime).files)] == [
                    "first round"
                ]
            await work(bucket)
            await runtime.sleep(301)
            await work(bucket)  # what the first one wrote is old by now
            assert not list(await collect_once(clone.files, OPTIONS))
            assert (await clone.manifest()).external_dbs == ()
            assert len(await clone.names("manifest")) == len(await clone.names("compactions")) == 1
            assert [int(name[:20]) for name in await clone.names("wal")] == []
            assert await clone.values() == values
            assert [each.name for each in await list_checkpoints(Database(bucket, runtime).files)] == ["first round"]

        assert await at_every_request(world, work, afterwards) > 30

    with remembering():
        simulate(scenario, 1)
