"""Checkpoints from outside: the RFC's procedures, what they refuse, what they cost, and many at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from slate_engine.admin import checkpoints
from slate_engine.admin.checkpoints import (
    CheckpointOptions,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slate_engine.admin.destroying import destroy_softly
from slate_engine.errors import InvalidError
from slate_engine.lsm.paths import Paths
from slate_engine.lsm.replay import wal_frontier
from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.state.checkpoints import CheckpointExpired, CheckpointMissing, NotInitialized
from slate_engine.state.commit import NothingStored
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.tombstone import Destroyed
from slate_engine.store.files import FileStore
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectStore, PutMode
from tests.simulation.loop import EPOCH_MS, SimulatedRuntime, simulate
from tests.unit.admin.workshop import CountingStore, Database, scan

NOW_S = EPOCH_MS // 1000
A, B, C = (UUID(int=number, version=4) for number in (1, 2, 3))


async def database(runtime: SimulatedRuntime) -> Database:
    return await Database(CountingStore(runtime), runtime).make()


def test_the_present_state_is_kept_as_it_is() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await database(runtime)
        await db.flush({b"a": b"1"})
        made = await create_checkpoint(db.files, CheckpointOptions(lifetime_ms=60_000, name="nightly"))
        # It keeps the very manifest that brought it.
        assert made.manifest_id == 3
        await db.flush({b"a": b"2"})
        (listed,) = await list_checkpoints(db.files)
        assert listed == Checkpoint(made.id, 3, NOW_S + 60, NOW_S, "nightly")
        assert await scan(await db.files.checkpoint("nightly")) == {b"a": b"1"}
        assert await list_checkpoints(db.files, "weekly") == []
        assert await list_checkpoints(db.files, "nightly") == [listed]

    simulate(scenario, 1)


def test_one_from_another_keeps_the_same_manifest() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await database(runtime)
        first = await create_checkpoint(db.files, CheckpointOptions(lifetime_ms=10_000, id=A))
        await db.flush({b"a": b"2"})
        second = await create_checkpoint(db.files, CheckpointOptions(source=A, id=B))
        assert (first.id, second.id) == (A, B)
        assert first.manifest_id == second.manifest_id == 2
        await runtime.sleep(10)
        with pytest.raises(CheckpointExpired):
            await create_checkpoint(db.files, CheckpointOptions(source=A, id=C))
        with pytest.raises(CheckpointMissing, match=str(C)):
            await create_checkpoint(db.files, CheckpointOptions(source=C))
        assert [each.id for each in await list_checkpoints(db.files)] == [A, B]

    simulate(scenario, 1)


def test_a_given_id_makes_the_request_repeatable() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await database(runtime)
        options = CheckpointOptions(lifetime_ms=10_000, id=A)
        once = await create_checkpoint(db.files, options)
        await db.flush({b"a": b"2"})
        assert await create_checkpoint(db.files, options) == once
        assert len(await list_checkpoints(db.files)) == 1
        assert (await db.files.manifests.read_latest()).id == 3

    simulate(scenario, 1)


def test_refresh_and_delete() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await database(runtime)
        await create_checkpoint(db.files, CheckpointOptions(lifetime_ms=10_000, id=A))
        await runtime.sleep(5)
        await refresh_checkpoint(db.files, A, 10_000)
        assert [each.expire_time_s for each in await list_checkpoints(db.files)] == [NOW_S + 15]
        await refresh_checkpoint(db.files, A, None)
        assert [each.expire_time_s for each in await list_checkpoints(db.files)] == [None]
        with pytest.raises(CheckpointMissing, match=str(B)):
            await refresh_checkpoint(db.files, B, 10_000)
        await delete_checkpoint(db.files, A)
        await delete_checkpoint(db.files, A)
        assert await list_checkpoints(db.files) == []

    simulate(scenario, 1)


def test_what_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        nowhere = Database(MemoryStore(runtime), runtime, "nowhere")
        with pytest.raises(NothingStored, match="nowhere/manifest"):
            await create_checkpoint(nowhere.files)
        unfinished = Database(MemoryStore(runtime), runtime)
        await unfinished.files.manifests.create_first(Manifest(initialized=False))
        with pytest.raises(NotInitialized):
            await create_checkpoint(unfinished.files)
        db = await database(runtime)
        for lifetime_ms in (-1, 2**32 * 1000):
            with pytest.raises(InvalidError, match="leave the lifetime out"):
                await create_checkpoint(db.files, CheckpointOptions(lifetime_ms=lifetime_ms))
        await create_checkpoint(db.files, CheckpointOptions(id=A))
        await destroy_softly(db.files)
        for source in (None, A):
            with pytest.raises(Destroyed, match="2023-11-14T22:13:20Z"):
                await create_checkpoint(db.files, CheckpointOptions(source=source))

    simulate(scenario, 1)


def test_only_with_the_whole_log_does_it_hold_what_no_manifest_knows_of() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await database(runtime)
        await db.log(1, {b"a": b"1"})
        await db.log(2, {b"b": b"2"})
        await create_checkpoint(db.files, CheckpointOptions(name="as the manifest has it"))
        await create_checkpoint(db.files, CheckpointOptions(name="whole", whole_log=True))
        await db.log(3, {b"c": b"3"})
        assert await scan(await db.files.checkpoint("as the manifest has it")) == {}
        assert await scan(await db.files.checkpoint("whole")) == {b"a": b"1", b"b": b"2"}
        assert await db.values() == {b"a": b"1", b"b": b"2", b"c": b"3"}

    simulate(scenario, 1)


def test_a_collected_part_of_the_log_is_not_taken_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was flushed and collected after we had looked at the manifest, and before we listed the log."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await database(runtime)
        await db.log(1, {b"a": b"1"})
        await db.log(2, {b"b": b"2"})
        looks: list[int] = []

        async def late(store: ObjectStore, paths: Paths, after: int) -> int:
            looks.append(after)
            if len(looks) == 1:
                rows = db.rows({b"a": b"1", b"b": b"2"})
                await db.publish(await db.upload(rows), db.seq, wal_id=2)
                await db.log(3, {b"c": b"3"})
                await store.delete([paths.wal(1), paths.wal(2)])
            return await wal_frontier(store, paths, after)

        monkeypatch.setattr(checkpoints, "wal_frontier", late)
        await create_checkpoint(db.files, CheckpointOptions(name="whole", whole_log=True))
        assert await scan(await db.files.checkpoint("whole")) == {b"a": b"1", b"b": b"2", b"c": b"3"}
        assert looks == [0, 2]

    simulate(scenario, 1)


@pytest.mark.parametrize("ssts", [1, 40])
def test_it_costs_the_same_however_large_the_database_is(ssts: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = CountingStore(runtime)
        db = await Database(store, runtime).make()
        for number in range(ssts):
            await db.flush({b"%d" % number: b""})
        files = db.files
        store.take()
        await create_checkpoint(files)
        # The first look takes a listing; each reading and the commit look at the boundary. There is none, so each also asks
        # whether what it follows is still there.
        assert store.take() == {"list": 1, "get": 4, "put": 1, "head": 1}
        await create_checkpoint(files)
        assert store.take() == {"get": 3, "put": 1, "head": 2}
        await create_checkpoint(db.files, CheckpointOptions(whole_log=True))
        assert store.take() == {"list": 2, "get": 6, "put": 1, "head": 2}

    simulate(scenario, 1)


class SlowStore(MemoryStore):
    """Every call takes its time, so that others get in between."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        super().__init__(runtime)
        self.pace = runtime
        self.puts = 0

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        await self.pace.sleep(self.pace.uniform(0.001, 0.01))
        return await super().get(key, if_none_match=if_none_match)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        await self.pace.sleep(self.pace.uniform(0.001, 0.01))
        self.puts += 1
        return await super().put(key, data, mode, mark=mark)


def test_two_hundred_at_once_all_succeed() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = SlowStore(runtime)
        db = await Database(store, runtime).make()
        ids = [uuid4(runtime) for _ in range(200)]
        made = await asyncio.gather(*(create_checkpoint(db.files, CheckpointOptions(id=id)) for id in ids))
        assert [each.id for each in made] == ids
        assert sorted(each.manifest_id for each in made) == list(range(2, 202))
        listed = {each.id: each.manifest_id for each in await list_checkpoints(db.files)}
        assert listed == {each.id: each.manifest_id for each in made}
        assert store.puts > 201  # some did lose a race: that is what was tested

    simulate(scenario, 1)


async def test_two_hundred_at_once_on_local_files(tmp_path: Path) -> None:
    """Real time, real files, and each as a process of its own would do it: nobody knows of the others."""
    runtime = SystemRuntime()
    store = FileStore(tmp_path, runtime)
    db = await Database(store, runtime).make()
    made = await asyncio.gather(*(create_checkpoint(db.files) for _ in range(200)))
    assert sorted(each.manifest_id for each in made) == list(range(2, 202))
    listed = {each.id: each.manifest_id for each in await list_checkpoints(db.files)}
    assert listed == {each.id: each.manifest_id for each in made}
    await store.close()


@pytest.mark.parametrize("other", [{"name": "other"}, {"source": B}])
def test_an_id_that_is_taken_by_another_checkpoint_is_refused(other: dict[str, Any]) -> None:
    """The caller would go on with a state that it did not ask for."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await Database(MemoryStore(runtime), runtime).make()
        await create_checkpoint(db.files, CheckpointOptions(id=A, name="one"))
        await db.flush({b"a": b"1"})
        await create_checkpoint(db.files, CheckpointOptions(id=B))
        wanted = CheckpointOptions(**{"id": A, "name": "one", **other})
        before = await list_checkpoints(db.files)
        with pytest.raises(InvalidError, match="is another one already"):
            await create_checkpoint(db.files, wanted)
        assert await list_checkpoints(db.files) == before
        # The same request is answered as it was, also when its lifetime was changed since.
        await refresh_checkpoint(db.files, A, 60_000)
        made = await create_checkpoint(db.files, CheckpointOptions(id=A, name="one"))
        assert (made.id, made.manifest_id) == (A, before[0].manifest_id)

    simulate(scenario, 1)
