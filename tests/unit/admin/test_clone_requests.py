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
    step: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        for id in (None, FIRST):
            db = await begun_by_the_first(runtime, step, monkeypatch)
            clone = beside(db, "clone")
            await db.flush({b"a": b"later"})
            caplog.clear()
            made = await create_clone(clone.files, PARENT, id=id)
            assert (await clone.values())[b"a"] == b"1"
            assert ("the state of that time" in caplog.text) == (id is None), "a client without an id is told"
            assert await create_clone(clone.files, PARENT, id=FIRST) == made
            kept = [each.final_checkpoint_id for each in made.value.external_dbs]
            held = (await db.manifest()).checkpoints
            assert [each.id for each in held if each.expire_time_s is None] == kept

    simulate(scenario, 1)


async def begun_by_the_first(runtime: SimulatedRuntime, step: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    db = await parent(runtime)
    with monkeypatch.context() as patch:
        patch.setattr(cloning, step, stopped)
        with pytest.raises(StoreUnavailable):
            await create_clone(files_beside(db, "clone"), PARENT, id=FIRST)
    return db


@pytest.mark.parametrize("step", ["_keep", "_copy_log"])
@pytest.mark.parametrize("pause", [0, 6000])
def test_what_another_request_has_begun_is_refused(step: str, pause: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """It shows an older state, or the clone of now belongs to two requests."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await begun_by_the_first(runtime, step, monkeypatch)
        clone = beside(db, "clone")
        begun = await clone.manifest()
        await db.flush({b"a": b"later"})
        await runtime.sleep(pause)
        with pytest.raises(NotThisClone, match="is begun for another request"):
            await create_clone(clone.files, PARENT, id=SECOND)
        assert await clone.manifest() == begun
        await create_clone(clone.files, PARENT, id=FIRST)

    simulate(scenario, 1)


def test_what_is_begun_from_the_same_checkpoint_is_finished_for_another_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A))
        clone, sources = beside(db, "clone"), [CloneSource("parent", A)]
        with monkeypatch.context() as patch:
            patch.setattr(cloning, "_copy_log", stopped)
            with pytest.raises(StoreUnavailable):
                await create_clone(clone.files, sources, id=FIRST)
        await db.flush({b"a": b"later"})
        await create_clone(clone.files, sources, id=SECOND)
        assert (await clone.values())[b"a"] == b"1"

    simulate(scenario, 1)


def overtaken_by(
    monkeypatch: pytest.MonkeyPatch, db: Database, sources: list[CloneSource], keys: KeyRange, id: UUID | None
) -> None:
    """Another client makes its clone after the first one has looked at its parent, and before it has named its clone."""
    first_manifest = cloning._first_manifest

    async def overtaken(files: DatabaseFiles, request: CloneRequest) -> Manifest:
        found = await first_manifest(files, request)
        monkeypatch.setattr(cloning, "_first_manifest", first_manifest)
        await create_clone(files_beside(db, "clone"), sources, keys, id=id)
        return found

    monkeypatch.setattr(cloning, "_first_manifest", overtaken)


@pytest.mark.parametrize("id", [FIRST, None])
@pytest.mark.parametrize("overtaking", [SECOND, None, FIRST])
@pytest.mark.parametrize(
    ("sources", "keys"),
    [(PARENT, BELOW_C), ([CloneSource("parent", A)], KeyRange()), ([CloneSource("parent", A)], BELOW_C)],
)
def test_of_two_different_requests_at_once_one_is_given_the_clone(
    sources: list[CloneSource],
    keys: KeyRange,
    overtaking: UUID | None,
    id: UUID | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await create_checkpoint(db.files, CheckpointOptions(id=A))
        await db.flush({b"a": b"later"})
        overtaken_by(monkeypatch, db, sources, keys, overtaking)
        with pytest.raises(NotThisClone, match="for another request"):
            await create_clone(files_beside(db, "clone"), PARENT, id=id)
        values = await beside(db, "clone").values()
        assert values[b"a"] == (b"later" if sources == PARENT else b"1")
        assert (b"c" in values) == (keys == KeyRange())

    simulate(scenario, 1)


@pytest.mark.parametrize("id", [FIRST, None])
def test_of_two_clients_with_one_request_both_are_given_the_clone(
    id: UUID | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        overtaken_by(monkeypatch, db, PARENT, KeyRange(), id)
        made = await create_clone(files_beside(db, "clone"), PARENT, id=id)
        assert made.value.initialized
        assert await beside(db, "clone").values() == await db.values()

    simulate(scenario, 1)


@pytest.mark.parametrize(("overtaking", "given"), [(FIRST, True), (SECOND, False), (None, False)])
def test_a_clone_that_another_client_begins_again_is_its_own(
    overtaking: UUID | None, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first attempt began with has expired."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await begun_by_the_first(runtime, "_keep", monkeypatch)
        await runtime.sleep(6000)
        # The id of the clone that stands there is another one at the moment of the commit.
        monkeypatch.setattr(cloning, "_check_begun", lambda *arguments: None)
        overtaken_by(monkeypatch, db, PARENT, BELOW_C if overtaking != FIRST else KeyRange(), overtaking)
        clone = beside(db, "clone")
        if given:
            assert (await create_clone(clone.files, PARENT, id=FIRST)).value.initialized
        else:
            with pytest.raises(NotThisClone, match="for another request"):
                await create_clone(clone.files, PARENT, id=FIRST)

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
