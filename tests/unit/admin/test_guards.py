"""What keeps databases safe while they are cloned, copied, restored and destroyed, rule by rule.

Each is played twice. With the rule everything must come out well; and with the rule switched off something must be lost,
left over or believed that is not so, or else the play does not test the rule.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import pytest

from slate_engine.admin import checkpoints, cloning, copying, destroying, restoring
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.copying import copy_database
from slate_engine.admin.deletion import Deletion
from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.admin.restoring import RestoreOptions, restore
from slate_engine.errors import Error, Fenced
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_frontier
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state import destroy
from slate_engine.state.checkpoints import with_checkpoint
from slate_engine.state.clones import finished
from slate_engine.state.commit import NothingStored, Versioned
from slate_engine.state.destroy import InvalidDeletion, claimed_for_deletion
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.tombstone import Destroyed, Tombstone
from slate_engine.store.memory import MemoryStore
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import ObjectStore
from tests.simulation.loop import Deadlock, SimulatedRuntime, simulate
from tests.unit.admin.crashes import CrashingStore, at_every_request, until_its_death
from tests.unit.admin.test_cloning import ROWS, beside, parent
from tests.unit.admin.test_copying import two_copies_at_once
from tests.unit.admin.test_restoring import restored_by_two
from tests.unit.admin.workshop import CountingStore, Database, scan
from tests.unit.gc.stalling import StallingStore

Patch = pytest.MonkeyPatch
A, B = UUID(int=1, version=4), UUID(int=2, version=4)
EAGER = Task(min_age=0)
EAGERLY = GcOptions(manifests=EAGER, wal=EAGER, compacted=EAGER, compactions=EAGER)
DISTRACTED = WriterOptions(manifest_poll_interval=1e6)
REQUEST = UUID(int=7, version=4)
"""A writer that learns of nothing but by its own writes."""


@dataclass(frozen=True)
class Rule:
    """``play`` fails if a promise is broken. ``break_it`` switches the rule off."""

    play: Callable[[SimulatedRuntime], Awaitable[None]]
    break_it: Callable[[Patch], None]


def database(store: ObjectStore, runtime: SimulatedRuntime, path: str) -> Database:
    return Database(store, runtime, path)


async def rewritten(db: Database, runtime: SimulatedRuntime) -> None:
    """The database drops what it had, and a collector that waits for nothing comes by."""
    for _ in range(2):
        await runtime.sleep(1)
        await db.flush({b"new": b"9"})
        await runtime.sleep(1)
        await db.compact()
    await runtime.sleep(1)
    await db.flush({b"newer": b"9"})
    await runtime.sleep(1)
    assert (await collect_once(db.files, EAGERLY)).errors == []


async def put(writer: Writer, key: bytes, value: bytes) -> None:
    await (await writer.write([Change(key, value)])).durable()


# --- a request whose answer is lost is repeated, and done once -------------------------------------------------------


async def repeated_checkpoint(runtime: SimulatedRuntime) -> None:
    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        await parent(runtime, store)
        return store

    async def work(store: ObjectStore) -> None:
        await create_checkpoint(DatabaseFiles(store, "parent", runtime), CheckpointOptions(id=A))

    async def afterwards(bucket: MemoryStore) -> None:
        await work(bucket)
        assert [each.id for each in await list_checkpoints(DatabaseFiles(bucket, "parent", runtime))] == [A]

    await at_every_request(world, work, afterwards)


def without_knowing_it_again(patch: Patch) -> None:
    def always(manifest: Manifest, *, id: UUID, **options: Any) -> Manifest:
        drawn = UUID(int=len(manifest.checkpoints) + 10, version=4)
        made = with_checkpoint(manifest, id=drawn, **options)
        renamed = tuple(replace(each, id=id) if each.id == drawn else each for each in made.checkpoints)
        return replace(made, checkpoints=renamed)

    patch.setattr(checkpoints, "with_checkpoint", always)


# --- clones ----------------------------------------------------------------------------------------------------------


async def opened_too_early(runtime: SimulatedRuntime) -> None:
    """Whoever opens a clone that was interrupted sees all of it, or is refused."""

    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        await parent(runtime, store)
        return store

    async def work(store: ObjectStore) -> None:
        await create_clone(DatabaseFiles(store, "clone", runtime), [CloneSource("parent")])

    async def afterwards(bucket: MemoryStore) -> None:
        standing = await DatabaseFiles(bucket, "clone", runtime).manifests.latest()
        if standing is not None and standing.value.initialized:
            assert await database(bucket, runtime, "clone").values() == ROWS

    await at_every_request(world, work, afterwards)


def with_the_log_last(patch: Patch) -> None:
    copy_log = cloning._copy_log

    async def late(files: DatabaseFiles, source: str, manifest: Manifest) -> None:
        await files.manifests.update(finished)
        await copy_log(files, source, manifest)

    patch.setattr(cloning, "_copy_log", late)


async def parent_moves_on(runtime: SimulatedRuntime) -> None:
    db = await parent(runtime)
    clone = beside(db, "clone")
    await create_clone(clone.files, [CloneSource("parent")])
    await runtime.sleep(1000)
    await rewritten(db, runtime)
    assert await clone.values() == ROWS


def without_final_checkpoints(patch: Patch) -> None:
    async def nothing(files: DatabaseFiles, external: ExternalDb) -> None:
        """The parent is not told."""

    patch.setattr(cloning, "_keep", nothing)


def without_the_log(patch: Patch) -> None:
    async def none_found(store: object, paths: object, after: int) -> int:
        return after

    patch.setattr(checkpoints, "wal_frontier", none_found)


async def interrupted_and_repeated(runtime: SimulatedRuntime) -> None:
    """However often a clone is begun, its parent keeps one checkpoint for it."""

    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        await parent(runtime, store)
        return store

    async def work(store: ObjectStore) -> None:
        await create_clone(DatabaseFiles(store, "clone", runtime), [CloneSource("parent")], id=REQUEST)

    async def afterwards(bucket: MemoryStore) -> None:
        await work(bucket)
        await runtime.sleep(301)
        files = DatabaseFiles(bucket, "parent", runtime)
        await collect_once(files, EAGERLY)
        (external,) = (await database(bucket, runtime, "clone").manifest()).external_dbs
        assert [each.id for each in await list_checkpoints(files)] == [external.final_checkpoint_id]

    await at_every_request(world, work, afterwards)


def with_checkpoints_before_the_manifest_that_names_them(patch: Patch) -> None:
    first_manifest = cloning._first_manifest

    async def hasty(files: DatabaseFiles, *arguments: Any) -> Manifest:
        manifest = await first_manifest(files, *arguments)
        for external in manifest.external_dbs:
            await cloning._keep(files, external)
        return manifest

    patch.setattr(cloning, "_first_manifest", hasty)


async def parent_destroyed_midway(runtime: SimulatedRuntime) -> None:
    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        await parent(runtime, store)
        return store

    async def work(store: ObjectStore) -> None:
        await create_clone(DatabaseFiles(store, "clone", runtime), [CloneSource("parent")])

    async def afterwards(bucket: MemoryStore) -> None:
        clone = DatabaseFiles(bucket, "clone", runtime)
        standing = await clone.manifests.latest()
        if standing is not None and standing.value.initialized:
            return
        db = database(bucket, runtime, "parent")
        await destroy_softly(db.files)
        with pytest.raises(Destroyed, match="'parent'"):
            await work(bucket)
        await runtime.sleep(301)
        # Nothing holds the parent any more, so its end is near.
        assert [each for each in await list_checkpoints(db.files) if each.expire_time_s is None] == []
        await destroy_hard(db.files)

    await at_every_request(world, work, afterwards)


def without_a_look_at_the_parent(patch: Patch) -> None:
    patch.setattr(cloning, "check_usable", lambda manifest, path=None: None)


async def leftover_log(runtime: SimulatedRuntime) -> None:
    """Somebody's WAL file lies where the clone's log will go on. It is none of the clone's rows."""
    db = await parent(runtime)
    clone = beside(db, "clone")
    clone.seq = 100
    await clone.log(4, {b"stranger": b"1"})
    with contextlib.suppress(cloning.NotThisClone):
        await create_clone(clone.files, [CloneSource("parent")])
        assert await clone.values() == ROWS


def without_a_look_behind_the_log(patch: Patch) -> None:
    async def nothing(*arguments: object) -> list[int]:
        return []

    patch.setattr(cloning, "wal_ids", nothing)


async def given_up_and_finished(runtime: SimulatedRuntime) -> None:
    """Somebody deletes a clone that is not finished, and somebody else finishes it. It must not look like a database."""
    bucket = CountingStore(runtime)
    db = await parent(runtime, bucket)
    store = StallingStore(bucket)
    store.stall(lambda key: key == "clone/manifest/00000000000000000002.manifest")
    making = asyncio.ensure_future(create_clone(DatabaseFiles(store, "clone", runtime), [CloneSource("parent")]))
    await store.stalled.wait()
    clone = beside(db, "clone").files
    await clone.manifests.update(lambda old: claimed_for_deletion(old, now_ms=runtime.now_ms()))
    store.go_on()
    await asyncio.gather(making, return_exceptions=True)
    assert Tombstone.of((await clone.manifests.read_latest()).value) is not None
    await destroy_hard(clone)
    assert await list_checkpoints(db.files) == []


def without_a_look_at_itself(patch: Patch) -> None:
    patch.setattr(cloning, "check_alive", lambda manifest, path=None: None)


# --- destroying ------------------------------------------------------------------------------------------------------


async def interrupted_deletion(runtime: SimulatedRuntime) -> None:
    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        db = await parent(runtime, store)
        await create_clone(beside(db, "clone").files, [CloneSource("parent")])
        await beside(db, "clone").flush({b"x": b"1", b"c": b"3"})
        return store

    async def work(store: ObjectStore) -> None:
        await destroy_hard(DatabaseFiles(store, "clone", runtime))

    async def afterwards(bucket: MemoryStore) -> None:
        with contextlib.suppress(NothingStored):
            await work(bucket)
        assert [key for key in bucket._objects if key.startswith("clone/")] == []
        assert await list_checkpoints(DatabaseFiles(bucket, "parent", runtime)) == []

    await at_every_request(world, work, afterwards)


def with_the_manifest_first(patch: Patch) -> None:
    sweep = Deletion.sweep

    async def reversed_order(deletion: Deletion, *, final: bool = False) -> None:
        files = deletion._files
        await files.store.delete([entry.meta.key for entry in await files.manifests.objects.list()])
        await sweep(deletion, final=final)

    patch.setattr(Deletion, "sweep", reversed_order)


def without_a_word_to_the_parent(patch: Patch) -> None:
    async def nothing(*arguments: object) -> None:
        """The parent is not told."""

    patch.setattr(destroying, "release_parents", nothing)


async def checkpoint_in_the_last_moment(runtime: SimulatedRuntime) -> None:
    """The database is looked at and found free; before it is marked, somebody makes a checkpoint, and relies on it."""
    bucket = CountingStore(runtime)
    db = await parent(runtime, bucket)
    store = StallingStore(bucket)
    store.stall(lambda key: "/manifest/" in key)
    deletion = asyncio.ensure_future(destroy_hard(DatabaseFiles(store, "parent", runtime)))
    await store.stalled.wait()
    await create_checkpoint(db.files, CheckpointOptions(id=A, whole_log=True))
    store.go_on()
    with contextlib.suppress(InvalidDeletion):
        await deletion
    assert await scan(await db.files.checkpoint(A)) == ROWS


def with_a_look_beforehand_only(patch: Patch) -> None:
    def claimed(manifest: Manifest, *, now_ms: int, destroyed_at_s: int | None) -> Manifest:
        return claimed_for_deletion(replace(manifest, checkpoints=()), now_ms=now_ms, destroyed_at_s=destroyed_at_s)

    patch.setattr(destroying, "claimed_for_deletion", claimed)


async def brought_back_half_deleted(runtime: SimulatedRuntime) -> None:
    """A deletion for good was interrupted. Whoever undeletes gets the whole database, or is refused."""

    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        await destroy_softly((await parent(runtime, store)).files)
        return store

    async def work(store: ObjectStore) -> None:
        await destroy_hard(DatabaseFiles(store, "parent", runtime))

    async def afterwards(bucket: MemoryStore) -> None:
        db = database(bucket, runtime, "parent")
        with contextlib.suppress(Destroyed, NothingStored):
            await undelete(db.files)
            assert await db.values() == ROWS

    await at_every_request(world, work, afterwards)


def with_a_way_back(patch: Patch) -> None:
    def claimed(manifest: Manifest, *, now_ms: int, destroyed_at_s: int | None) -> Manifest:
        marked = claimed_for_deletion(manifest, now_ms=now_ms, destroyed_at_s=destroyed_at_s)
        tombstone = Tombstone.of(marked)
        assert tombstone is not None
        return replace(marked, segment_extractor_name=replace(tombstone, deleting=False).text)

    patch.setattr(destroying, "claimed_for_deletion", claimed)


async def brought_back_too_late(runtime: SimulatedRuntime) -> None:
    """While the manifest that would bring the database back is on its way, all of it is deleted for good."""
    bucket = CountingStore(runtime)
    db = await parent(runtime, bucket)
    await destroy_softly(db.files)
    store = StallingStore(bucket)
    store.stall(lambda key: "/manifest/" in key)
    back = asyncio.ensure_future(undelete(DatabaseFiles(store, "parent", runtime)))
    await store.stalled.wait()
    await destroy_hard(db.files)
    store.go_on()
    with pytest.raises(Error, match="is not undeleted"):
        await back
    assert [key for key in bucket._objects if key.startswith("parent/")] == []


def without_a_look_at_what_came_back(patch: Patch) -> None:
    async def nothing(*arguments: object) -> None:
        """Whatever it is."""

    async def not_overtaken(*arguments: object) -> int:
        return 0

    patch.setattr(destroying, "_check_whole", nothing)
    patch.setattr(NumberedObjects, "_overtaken", not_overtaken)


async def written_after_the_end(runtime: SimulatedRuntime) -> None:
    """Nobody is told that a row is safe in a database that is going to be deleted."""
    db = await parent(runtime)
    writer = await Writer.open(db.files, DISTRACTED)
    await destroy_softly(db.files)
    with pytest.raises(Fenced):
        await put(writer, b"late", b"1")


def without_a_fence(patch: Patch) -> None:
    async def seen_only(tenure: Tenure) -> int:
        files = tenure.files
        newest = await files.manifests.read_latest()
        return await wal_frontier(files.store, files.paths, newest.value.replay_after_wal_id)

    for module in (destroying, restoring):
        patch.setattr(module, "fence_log", seen_only)


async def flushed_after_the_end(runtime: SimulatedRuntime) -> None:
    """What is destroyed does not change any more."""
    db = await parent(runtime)
    writer = await Writer.open(db.files, replace(DISTRACTED, wal_enabled=False))
    await writer.write([Change(b"late", b"1")])
    await destroy_softly(db.files)
    before = await db.manifest()
    with contextlib.suppress(Fenced):
        await writer.flush_memtable()
    assert await db.manifest() == before


def without_new_epochs(patch: Patch) -> None:
    patch.setattr(destroy, "claim_writer", lambda manifest: manifest)


# --- copying ---------------------------------------------------------------------------------------------------------


async def source_moves_on(runtime: SimulatedRuntime) -> None:
    """Amid the copy the source drops the SSTs that have yet to be copied."""
    bucket = CountingStore(runtime)
    db = await parent(runtime, bucket)
    store = StallingStore(bucket)
    store.stall(lambda key: "/compacted/" in key)
    copy = asyncio.ensure_future(
        copy_database(DatabaseFiles(store, "parent", runtime), DatabaseFiles(store, "copy", runtime))
    )
    await store.stalled.wait()
    await rewritten(db, runtime)
    store.go_on()
    await copy
    assert await beside(db, "copy").values() == ROWS


def without_a_hold(patch: Patch) -> None:
    patch.setattr(copying, "HOLD_MS", 0)


async def interrupted_copy(runtime: SimulatedRuntime) -> None:
    """Whoever opens a copy that was interrupted sees all of it, or nothing."""

    async def world() -> MemoryStore:
        store = CountingStore(runtime)
        await parent(runtime, store)
        return store

    async def work(store: ObjectStore) -> None:
        await copy_database(DatabaseFiles(store, "parent", runtime), DatabaseFiles(store, "copy", runtime))

    async def afterwards(bucket: MemoryStore) -> None:
        copy = database(bucket, runtime, "copy")
        if await copy.files.manifests.latest() is not None:
            assert await copy.values() == ROWS

    await at_every_request(world, work, afterwards)


def with_the_manifest_before_the_objects(patch: Patch) -> None:
    copy_objects = copying._copy_objects

    async def late(source: DatabaseFiles, target: DatabaseFiles, manifest: Manifest, *others: Any) -> None:
        await copying._commit(target, manifest, others[0])
        await copy_objects(source, target, manifest, *others)

    patch.setattr(copying, "_copy_objects", late)


async def another_copy_at_the_same_place(runtime: SimulatedRuntime) -> None:
    """A copy of the present was given up; then an earlier checkpoint is copied there. Nothing of the first shows."""
    bucket = CountingStore(runtime)
    db = await parent(runtime, bucket)
    await create_checkpoint(db.files, CheckpointOptions(id=A, whole_log=True))
    await db.log(4, {b"later": b"1"})
    store = StallingStore(bucket)
    store.stall(lambda key: key.startswith("copy/manifest/"))
    given_up = asyncio.ensure_future(
        copy_database(DatabaseFiles(store, "parent", runtime), DatabaseFiles(store, "copy", runtime))
    )
    await store.stalled.wait()
    given_up.cancel()
    await asyncio.gather(given_up, return_exceptions=True)
    target = DatabaseFiles(bucket, "copy", runtime)
    assert "copy/wal/00000000000000000004.sst" in bucket._objects
    await copy_database(db.files, target, A)
    assert await beside(db, "copy").values() == ROWS


def with_whatever_log_is_there(patch: Patch) -> None:
    async def nothing(target: DatabaseFiles, wanted: Sequence[int]) -> None:
        """What lies there stays."""

    patch.setattr(copying, "_drop_other_log", nothing)


def with_a_state_for_each_attempt(patch: Patch) -> None:
    async def none(*others: object) -> None:
        """No other attempt is seen."""

    patch.setattr(copying, "_known_hold", none)


# --- restoring -------------------------------------------------------------------------------------------------------


async def changed_since(runtime: SimulatedRuntime) -> Database:
    db = await parent(runtime)
    await create_checkpoint(db.files, CheckpointOptions(id=A, whole_log=True))
    await db.log(4, {b"d": b"4"})
    return db


async def restored_twice(runtime: SimulatedRuntime) -> None:
    """A restore was interrupted, and work went on. The repetition keeps what was written in between."""
    options = RestoreOptions(keep_id=B)
    for at in range(1, 100):
        db = await changed_since(runtime)
        bucket = db.store
        assert isinstance(bucket, MemoryStore)
        store = CrashingStore(bucket, at, carried_out=True)
        await until_its_death(restore(DatabaseFiles(store, "parent", runtime), A, options))
        kept = (await db.manifest()).checkpoint(B)
        if kept is not None:
            break
    assert kept is not None
    assert kept.name == restoring.PREPARED
    writer = await Writer.open(db.files, WriterOptions())
    await put(writer, b"between", b"1")
    await writer.close()
    await restore(db.files, A, options)
    assert await db.values() == ROWS
    assert await scan(await db.files.checkpoint(B)) == {**ROWS, b"d": b"4", b"between": b"1"}


def with_the_first_that_was_kept(patch: Patch) -> None:
    patch.setattr(restoring, "without_checkpoint", lambda manifest, id: manifest)


def without_a_look_at_who_was_faster(patch: Patch) -> None:
    ends = restoring._end_the_present

    async def of_no_name(files: DatabaseFiles, keep_id: UUID, name: str) -> Versioned[Manifest]:
        return await ends(files, keep_id, "")

    patch.setattr(restoring, "_end_the_present", of_no_name)


async def written_after_a_restore(runtime: SimulatedRuntime) -> None:
    """Whoever wrote before is told that his time is over, and no row of his shows up later."""
    db = await changed_since(runtime)
    writer = await Writer.open(db.files, DISTRACTED)
    await restore(db.files, A)
    with pytest.raises(Fenced):
        await put(writer, b"late", b"1")


async def numbered_after_a_restore(runtime: SimulatedRuntime) -> None:
    """No sequence number stands for two commits."""
    db = await changed_since(runtime)
    last = db.seq
    await restore(db.files, A)
    writer = await Writer.open(db.files, WriterOptions())
    commit = await writer.write([Change(b"n", b"1")])
    await commit.durable()
    await writer.close()
    assert commit.seq > last


def with_numbers_of_then(patch: Patch) -> None:
    async def of_then(files: DatabaseFiles, present: Manifest) -> int:
        return 0

    patch.setattr(restoring, "_last_seq", of_then)


async def rows_of_the_log(runtime: SimulatedRuntime) -> None:
    db = await changed_since(runtime)
    done = await restore(db.files, A)
    assert await db.values() == ROWS
    assert await scan(await db.files.checkpoint(done.kept)) == {**ROWS, b"d": b"4"}


def without_the_rows_of_the_log(patch: Patch) -> None:
    async def as_it_is(files: DatabaseFiles, past: Manifest, *others: object) -> Manifest:
        return past

    patch.setattr(restoring, "_with_log_in_ssts", as_it_is)


RULES = {
    "a checkpoint with an id is made once": Rule(repeated_checkpoint, without_knowing_it_again),
    "a clone is initialized when its log is there": Rule(opened_too_early, with_the_log_last),
    "a parent keeps what its clone shows": Rule(parent_moves_on, without_final_checkpoints),
    "a clone has the whole log": Rule(parent_moves_on, without_the_log),
    "checkpoints are named before they are made": Rule(
        interrupted_and_repeated, with_checkpoints_before_the_manifest_that_names_them
    ),
    "no clone is begun of a destroyed parent": Rule(parent_destroyed_midway, without_a_look_at_the_parent),
    "a clone's log ends where its parent's did": Rule(leftover_log, without_a_look_behind_the_log),
    "a clone that is being deleted is not finished": Rule(given_up_and_finished, without_a_look_at_itself),
    "the manifest is deleted last": Rule(interrupted_deletion, with_the_manifest_first),
    "a parent is released": Rule(interrupted_deletion, without_a_word_to_the_parent),
    "checkpoints are looked at by the commit": Rule(checkpoint_in_the_last_moment, with_a_look_beforehand_only),
    "there is no way back from a deletion": Rule(brought_back_half_deleted, with_a_way_back),
    "what comes back is whole": Rule(brought_back_too_late, without_a_look_at_what_came_back),
    "destroying fences the log": Rule(written_after_the_end, without_a_fence),
    "destroying takes the epochs": Rule(flushed_after_the_end, without_new_epochs),
    "the source of a copy is held": Rule(source_moves_on, without_a_hold),
    "the manifest is copied last": Rule(interrupted_copy, with_the_manifest_before_the_objects),
    "attempts at one copy copy one state": Rule(two_copies_at_once, with_a_state_for_each_attempt),
    "a restore is done once": Rule(restored_by_two, without_a_look_at_who_was_faster),
    "a copy has its own log only": Rule(another_copy_at_the_same_place, with_whatever_log_is_there),
    "the present is kept, not an earlier one": Rule(restored_twice, with_the_first_that_was_kept),
    "restoring fences the log": Rule(written_after_a_restore, without_a_fence),
    "restoring does not turn numbers back": Rule(numbered_after_a_restore, with_numbers_of_then),
    "restoring brings the log back, too": Rule(rows_of_the_log, without_the_rows_of_the_log),
}


@pytest.mark.parametrize("name", RULES)
def test_the_promise_is_kept(name: str) -> None:
    simulate(lambda runtime: _play(RULES[name], runtime), name)


@pytest.mark.parametrize("name", RULES)
def test_without_the_rule_it_is_broken(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    RULES[name].break_it(monkeypatch)
    with pytest.raises((AssertionError, Error, Deadlock, pytest.fail.Exception)):
        simulate(lambda runtime: _play(RULES[name], runtime), name)


async def _play(rule: Rule, runtime: SimulatedRuntime) -> None:
    await rule.play(runtime)
