"""Repeated requests for a clone: which of them find their own, and that none is given the clone of another request."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from slate_engine.admin import cloning
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.admin.clone_request import CloneRequest, CloneSource
from slate_engine.admin.cloning import NotThisClone, create_clone
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import StoreUnavailable
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.admin.workshop import CountingStore, Database

A = UUID(int=1, version=4)
FIRST, SECOND = UUID(int=11, version=4), UUID(int=12, version=4)
PARENT = [CloneSource("parent")]
BELOW_C = KeyRange.half_open(None, b"c")


async def parent(runtime: SimulatedRuntime) -> Database:
    db = await Database(CountingStore(runtime), runtime, "parent").make()
    await db.flush({b"a": b"1", b"b": b"1", b"c": b"1"})
    await db.flush({b"d": b"2"})
    return db


def beside(db: Database, path: str) -> Database:
    return Database(db.store, db.runtime, path)


def files_beside(db: Database, path: str) -> DatabaseFiles:
    return beside(db, path).files


async def stopped(*arguments: object) -> None:
    raise StoreUnavailable("stopped")


def test_a_finished_clone_of_an_older_state_is_refused() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_clone(files_beside(db, "clone"), PARENT)
        await db.flush({b"a": b"later"})
        manifest = await beside(db, "clone").manifest()
        for id in (None, FIRST):
            with pytest.raises(NotThisClone, match=r"a finished clone of 'parent' already.*destroy that database"):
                await create_clone(files_beside(db, "clone"), PARENT, id=id)
        assert await beside(db, "clone").manifest() == manifest

    simulate(scenario, 1)


def test_a_request_with_an_id_finds_the_clone_that_it_made() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        made = await create_clone(files_beside(db, "clone"), PARENT, BELOW_C, id=FIRST)
        await db.flush({b"a": b"later"})
        assert await create_clone(files_beside(db, "clone"), PARENT, BELOW_C, id=FIRST) == made
        # The same keys in other words are the same request.
        same = [CloneSource("/parent/", keys=BELOW_C)]
        assert await create_clone(files_beside(db, "clone"), same, id=FIRST) == made
        clone = beside(db, "clone")
        clone.seq = 100
        await clone.flush({b"b": b"its own"})
        await create_clone(clone.files, PARENT, BELOW_C, id=FIRST)
        others = [(PARENT, BELOW_C, SECOND), (PARENT, KeyRange(), FIRST), ([CloneSource("parent", A)], BELOW_C, FIRST)]
        for sources, keys, id in others:
            with pytest.raises(NotThisClone, match="there is a"):
                await create_clone(clone.files, sources, keys, id=id)
        assert await clone.values() == {b"a": b"1", b"b": b"its own"}

    simulate(scenario, 1)


def test_a_union_is_known_by_its_id() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        for path, keys in (("low", BELOW_C), ("high", KeyRange.half_open(b"c", None))):
            await create_clone(files_beside(db, path), [CloneSource("parent", keys=keys)])
        both = [CloneSource("low"), CloneSource("high")]
        made = await create_clone(files_beside(db, "both"), both, id=FIRST)
        assert await create_clone(files_beside(db, "both"), both, id=FIRST) == made
        with pytest.raises(NotThisClone, match="'low' and 'high'"):
            await create_clone(files_beside(db, "both"), both)

    simulate(scenario, 1)


def test_a_named_checkpoint_and_the_same_keys_are_the_same_request() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A))
        await db.flush({b"a": b"later"})
        for path, keys in (("all", KeyRange()), ("part", BELOW_C)):
            clone, sources = beside(db, path), [CloneSource("parent", A)]
            made = await create_clone(clone.files, sources, keys)
            assert await create_clone(clone.files, sources, keys) == made
            with pytest.raises(NotThisClone, match="not known to show"):
                await create_clone(clone.files, sources, KeyRange.half_open(None, b"b"))
            # Once it goes its own way, its views do not tell any more which keys were asked for.
            clone.seq = 100
            await clone.flush({b"b": b"its own"})
            with pytest.raises(NotThisClone, match="not known to show"):
                await create_clone(clone.files, sources, keys)

    simulate(scenario, 1)


def test_a_clone_that_a_writer_has_opened_is_not_known_by_what_it_shows() -> None:
    """What the writer wrote may be in the log only. With an id it is known all the same."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A))
        for path, id in (("without", None), ("with", FIRST)):
            files, sources = files_beside(db, path), [CloneSource("parent", A)]
            made = await create_clone(files, sources, id=id)
            assert await create_clone(files, sources) == made
            writer = await Writer.open(files_beside(db, path), WriterOptions())
            await (await writer.write([Change(b"a", b"its own")])).durable()
            await writer.close()
            with pytest.raises(NotThisClone, match="not known to show"):
                await create_clone(files_beside(db, path), sources)
            if id is not None:
                assert (await create_clone(files_beside(db, path), sources, id=id)).value.initialized

    simulate(scenario, 1)


def test_a_clone_that_names_its_parents_no_more_is_not_known_again() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        files = files_beside(db, "clone")
        await create_clone(files, PARENT, id=FIRST)
        await files.manifests.update(lambda old: replace(old, external_dbs=()))
        with pytest.raises(NotThisClone, match="no clone of 'parent'"):
            await create_clone(files, PARENT, id=FIRST)

    simulate(scenario, 1)


@pytest.mark.parametrize("step", ["_keep", "_copy_log"])
def test_what_is_begun_is_finished_and_belongs_to_the_request_that_began_it(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        for id in (None, FIRST, SECOND):
            db = await parent(runtime)
            clone = beside(db, "clone")
            with monkeypatch.context() as patch:
                patch.setattr(cloning, step, stopped)
                with pytest.raises(StoreUnavailable):
                    await create_clone(clone.files, PARENT, id=FIRST)
            await db.flush({b"a": b"later"})
            made = await create_clone(clone.files, PARENT, id=id)
            assert (await clone.values())[b"a"] == b"1"
            assert await create_clone(clone.files, PARENT, id=FIRST) == made
            kept = [each.final_checkpoint_id for each in made.value.external_dbs]
            held = (await db.manifest()).checkpoints
            assert [each.id for each in held if each.expire_time_s is None] == kept

    simulate(scenario, 1)


@pytest.mark.parametrize("overtaking", [SECOND, None, FIRST])
def test_of_two_different_requests_at_once_one_is_given_the_clone(
    overtaking: UUID | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one makes the clone while the first one has but looked at its parent."""
    first_manifest = cloning._first_manifest

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)

        async def overtaken(files: DatabaseFiles, request: CloneRequest) -> Manifest:
            found = await first_manifest(files, request)
            monkeypatch.setattr(cloning, "_first_manifest", first_manifest)
            await db.flush({b"a": b"later"})
            await create_clone(files_beside(db, "clone"), PARENT, id=overtaking)
            return found

        monkeypatch.setattr(cloning, "_first_manifest", overtaken)
        if overtaking == FIRST:
            await create_clone(files_beside(db, "clone"), PARENT, id=FIRST)
        else:
            with pytest.raises(NotThisClone, match="for another request"):
                await create_clone(files_beside(db, "clone"), PARENT, id=FIRST)
        assert (await beside(db, "clone").values())[b"a"] == b"later"

    simulate(scenario, 1)


@pytest.mark.parametrize("step", ["_keep", "_copy_log"])
def test_a_clone_that_is_resumed_keeps_the_view_ids_of_the_first_attempt(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attempt draws view ids, and those that it compares with are the drawn ones of another."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        clone = beside(db, "clone")
        with monkeypatch.context() as patch:
            patch.setattr(cloning, step, stopped)
            with pytest.raises(StoreUnavailable):
                await create_clone(clone.files, PARENT, BELOW_C)
        begun = await clone.manifest()
        made = (await create_clone(clone.files, PARENT, BELOW_C)).value
        assert made == replace(begun, initialized=True)
        assert made.root.l0.ids != (await db.manifest()).root.l0[1:].ids

    simulate(scenario, 1)
