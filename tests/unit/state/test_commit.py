"""The one loop that commits: nothing is lost, nothing is written twice, what must not be written is not."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import pytest
import slatedb.uniffi as u

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.runtime import SystemRuntime, uuid4
from slate_engine.state.checkpoints import with_checkpoint, without_checkpoint
from slate_engine.state.commit import Contended, NothingStored
from slate_engine.state.compactions import Compaction, Compactions, TieredSpec
from slate_engine.state.compactions_write import InvalidCompactions
from slate_engine.state.epochs import claim_compactor, claim_writer
from slate_engine.state.invariants import InvalidManifest
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.stores import CompactionsStore, ManifestStore
from slate_engine.state.tree import Tree, Trees
from slate_engine.state.views import Views
from slate_engine.store.files import FileStore
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, NotFound, Object, PutMode
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.state.test_views_and_trees import view
from tests.unit.state.wheel import admin


class SlowStore(MemoryStore):
    """Every call takes its time, so that others get in between."""

    def __init__(self, runtime: SimulatedRuntime) -> None:
        super().__init__(runtime)
        self._slow = runtime
        self.puts = 0

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        await self._slow.sleep(self._slow.uniform(0, 0.02))
        return await super().get(key, if_none_match=if_none_match)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        await self._slow.sleep(self._slow.uniform(0, 0.02))
        self.puts += 1
        return await super().put(key, data, mode, mark=mark)


@pytest.mark.parametrize("seed", range(5))
def test_fifty_at_once_and_none_is_lost(seed: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = SlowStore(runtime)
        await ManifestStore.open(store, "db", runtime).create_first(Manifest())

        async def add() -> tuple[UUID, int]:
            id = uuid4(runtime)
            mine = ManifestStore.open(store, "db", runtime)
            done = await mine.update(lambda manifest: with_checkpoint(manifest, id=id, now_ms=runtime.now_ms()))
            return id, done.id

        made = await asyncio.gather(*(add() for _ in range(50)))
        assert sorted(number for _, number in made) == list(range(2, 52))
        last = await ManifestStore.open(store, "db", runtime).read_latest()
        assert last.id == 51
        # Each keeps the very manifest that brought it.
        assert {checkpoint.id: checkpoint.manifest_id for checkpoint in last.value.checkpoints} == dict(made)
        assert store.puts > 51  # some did lose a race: that is what was tested

    simulate(scenario, seed)


def test_losing_for_ever_ends() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        manifests = ManifestStore.open(store, "db", runtime)
        await manifests.create_first(Manifest())
        rival = 1

        def change(manifest: Manifest) -> Manifest:
            # Somebody else commits between our reading and our writing, every time.
            nonlocal rival
            rival += 1
            key = f"db/manifest/{rival:020d}.manifest"
            store._store(key, encode_manifest(Manifest(last_l0_seq=rival)), "")
            return claim_writer(manifest)

        with pytest.raises(Contended, match="60 s"):
            await manifests.update(change)
        assert (await manifests.read_latest()).value.writer_epoch == 0

    simulate(scenario, 1)


async def test_a_change_that_changes_nothing_writes_nothing() -> None:
    runtime = SystemRuntime()
    manifests = ManifestStore.open(MemoryStore(runtime), "db", runtime)
    await manifests.create_first(Manifest())
    assert (await manifests.update(lambda manifest: without_checkpoint(manifest, UUID(int=1)))).id == 1
    assert (await manifests.update(claim_writer)).id == 2


async def test_reading_what_is_and_what_is_not_there() -> None:
    runtime = SystemRuntime()
    store = MemoryStore(runtime)
    manifests = ManifestStore.open(store, "db", runtime)
    assert await manifests.latest() is None
    with pytest.raises(NothingStored, match=r"db/manifest/00000000000000000001\.manifest"):
        await manifests.read_latest()
    with pytest.raises(NothingStored):
        await manifests.update(claim_writer)
    first = await manifests.create_first(Manifest())
    assert await ManifestStore.open(store, "db", runtime).create_first(Manifest(writer_epoch=9)) == first
    await manifests.update(claim_compactor)
    assert await manifests.read(1) == Manifest()
    assert (await manifests.read_latest()).value == Manifest(compactor_epoch=1)
    with pytest.raises(NotFound):
        await manifests.read(3)


async def test_what_must_not_follow_is_not_written() -> None:
    runtime = SystemRuntime()
    manifests = ManifestStore.open(MemoryStore(runtime), "", runtime)
    await manifests.create_first(Manifest(trees=Trees(Tree(Views.of([view(100)])))))

    def stale(manifest: Manifest) -> Manifest:
        return manifest.with_root(manifest.root.with_l0(Views.of([view(99)])))

    for wrong in (stale, lambda manifest: replace(manifest, wal_id_last_seen=2**64 - 1)):
        with pytest.raises(InvalidManifest):
            await manifests.update(wrong)
    assert (await manifests.read_latest()).id == 1


async def test_unchanged_bytes_are_decoded_once() -> None:
    runtime = SystemRuntime()
    manifests = ManifestStore.open(MemoryStore(runtime), "db", runtime)
    await manifests.create_first(Manifest())
    one, other = await manifests.read_latest(), await manifests.read_latest()
    assert one.value is other.value


async def test_a_write_below_the_boundary_counts_as_lost_and_is_done_again() -> None:
    runtime = SystemRuntime()
    store = MemoryStore(runtime)
    asleep = ManifestStore.open(store, "db", runtime)
    await asleep.create_first(Manifest())
    awake = ManifestStore.open(store, "db", runtime)
    calls = 0

    def change(manifest: Manifest) -> Manifest:
        nonlocal calls
        calls += 1
        if calls == 1:
            # While this one thinks, manifest 2 comes and goes: its name is free again when it is written.
            store._store("db/manifest/00000000000000000003.manifest", encode_manifest(Manifest(last_l0_seq=77)), "")
            store._store("db/gc/manifest.boundary", b"2", "")
        return claim_writer(manifest)

    done = await asleep.update(change)
    assert (done.id, done.value.last_l0_seq, calls) == (4, 77, 2)
    assert (await awake.read_latest()).value == Manifest(writer_epoch=1, last_l0_seq=77)


async def test_compactions_likewise() -> None:
    runtime = SystemRuntime()
    books = CompactionsStore.open(MemoryStore(runtime), "db", runtime)
    assert (await books.create_first(Compactions())).id == 1
    job = Compaction(Ulid.of(1000, 1), TieredSpec((Ulid(5),), (), 0))
    done = await books.update(lambda book: book.with_job(job))
    assert (done.id, done.value.jobs) == (2, (job,))
    older = replace(job, id=Ulid.of(999, 1))
    with pytest.raises(InvalidCompactions, match="older"):
        await books.update(lambda book: book.with_job(older))
    await books.update(lambda book: replace(book, compactor_epoch=3))
    with pytest.raises(InvalidCompactions, match="epoch"):
        await books.update(lambda book: replace(book, compactor_epoch=2))
    with pytest.raises(InvalidError):
        await CompactionsStore.open(MemoryStore(runtime), "db", runtime).read_latest()


async def test_the_wheel_and_we_take_turns(tmp_path: Path) -> None:
    """Checkpoints by both, on one database on disk."""
    runtime = SystemRuntime()
    manifests = ManifestStore.open(FileStore(str(tmp_path), runtime), "db", runtime)
    await manifests.create_first(Manifest())
    wheel = admin(tmp_path, "db")
    expected = {}
    for turn in range(3):
        ours = uuid4(runtime)
        done = await manifests.update(partial(with_checkpoint, id=ours, now_ms=runtime.now_ms()))
        theirs = await wheel.create_detached_checkpoint(
            u.CheckpointOptions(lifetime_ms=60_000, source=str(ours), name=f"turn {turn}")
        )
        expected |= {str(ours): done.id, theirs.id: done.id}
        assert done.id == 2 + 2 * turn
    listed = await wheel.list_checkpoints(None)
    assert {checkpoint.id: checkpoint.manifest_id for checkpoint in listed} == expected
    mine = (await manifests.read_latest()).value.checkpoints
    assert {str(checkpoint.id): checkpoint.manifest_id for checkpoint in mine} == expected
