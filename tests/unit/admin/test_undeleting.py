"""Bringing a destroyed database back, beside somebody who deletes it for good."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from unittest import mock

import pytest

from slate_engine.admin import destroying
from slate_engine.admin.destroying import destroy_hard, destroy_softly, objects_of, undelete
from slate_engine.errors import DataError, UnavailableError
from slate_engine.gc import destroyed
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Kind, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import NothingStored, Versioned
from slate_engine.state.destroy import (
    RETURN_S,
    BeingUndeleted,
    BroughtBack,
    announced,
    claimed_for_deletion,
    undeleted,
)
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Tombstone, life_of
from slate_engine.state.tree import Trees
from slate_engine.store.boundary import BoundaryLost
from slate_engine.store.protocol import Buffer, Object, ObjectMeta
from tests.simulation.loop import EPOCH_MS, SimulatedRuntime, simulate
from tests.unit.admin.test_cloning import ROWS, parent
from tests.unit.admin.test_destroying import everything
from tests.unit.admin.workshop import Database

NOW_S = EPOCH_MS // 1000


def test_undelete_looks_at_what_it_brings_back() -> None:
    """Also when somebody else brought it back at first, found nothing of it left, and destroyed it again meanwhile."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        mine, others = db.files, DatabaseFiles(db.files.store, db.files.path, runtime)
        update = mine.manifests.update

        async def later(change: Callable[[Manifest], Manifest]) -> Versioned[Manifest]:
            await destroy_softly(others)
            return await update(change)

        shown = (await mine.manifests.read_latest()).value.ssts.id
        await mine.store.delete([mine.paths.compacted(id) for id in shown])
        with (
            mock.patch.object(mine.manifests, "update", later),
            pytest.raises(DataError, match="is not undeleted"),
        ):
            await undelete(mine)
        assert Tombstone.of((await others.manifests.read_latest()).value) is not None

    simulate(scenario, 1)


def test_undelete_of_what_is_only_in_the_log() -> None:
    """Without any SST, the log tells whether somebody was there to delete it."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        newest = (await db.files.manifests.read_latest()).value
        await db.files.manifests.update(lambda old: replace(old, trees=Trees()))
        await destroy_softly(db.files)
        await undelete(db.files)
        assert (await db.files.manifests.read_latest()).value.writer_epoch == newest.writer_epoch + 1
        await destroy_softly(db.files)
        gone = [key for key in await objects_of(db.files) if "/manifest/" not in key]
        await db.files.store.delete(gone)
        with pytest.raises(DataError, match="parent/wal/ is gone"):
            await undelete(DatabaseFiles(db.files.store, db.files.path, runtime))
        await destroy_hard(db.files)  # what was announced is withdrawn, so nobody has to wait
        assert await everything(db.store) == []

    simulate(scenario, 1)


def test_who_brings_it_back_is_not_deleted_under() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await destroy_softly(db.files)
        others = DatabaseFiles(db.files.store, db.files.path, runtime)
        lost = destroying._lost

        async def slowly(files: DatabaseFiles, manifest: Manifest) -> str | None:
            if Tombstone.of(manifest) is not None:
                with pytest.raises(BeingUndeleted):
                    await destroy_hard(others)
                report = await Collector(others, GcOptions(destroyed=Task(min_age=0))).collect([Kind.DESTROYED])
                refused.append(report.waiting or "")
            return await lost(files, manifest)

        refused: list[str] = []
        with mock.patch.object(destroying, "_lost", slowly):
            await undelete(db.files)
        assert ["began to undelete it" in each for each in refused] == [True], refused
        assert await db.values() == ROWS

    simulate(scenario, 1)


@pytest.mark.parametrize("again", [False, True], ids=["alive", "destroyed again"])
def test_what_was_brought_back_is_not_deleted_for_what_it_was(again: bool) -> None:
    """Whoever was told to delete it may come to that late."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        since = await destroy_softly(db.files)
        await undelete(db.files)
        await runtime.sleep(RETURN_S)
        if again:
            assert await destroy_softly(db.files) != since
        with pytest.raises(BroughtBack, match="was brought back since then"):
            await destroy_hard(db.files, destroyed_at_s=since)
        if again:
            await undelete(db.files)
        assert await db.values() == ROWS
        now = await destroy_softly(db.files)
        await runtime.sleep(RETURN_S)
        await destroy_hard(db.files, destroyed_at_s=now)
        assert await everything(db.store) == []

    simulate(scenario, 1)


def test_a_collector_that_takes_its_time_deletes_nothing_that_was_brought_back() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await destroy_softly(db.files)
        listed = destroyed.listed

        async def slowly(files: DatabaseFiles) -> list[ObjectMeta]:
            await undelete(DatabaseFiles(db.files.store, db.files.path, runtime))
            return await listed(files)

        others = DatabaseFiles(db.files.store, db.files.path, runtime)
        with mock.patch.object(destroyed, "listed", slowly):
            report = await Collector(others, GcOptions(destroyed=Task(min_age=0))).collect([Kind.DESTROYED])
        assert "was brought back" in (report.waiting or "")
        assert await db.values() == ROWS

    simulate(scenario, 1)


def test_who_brings_it_back_is_waited_for() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await destroy_softly(db.files)
        await destroying._announce(db.files)  # and then he stalls
        began = runtime.monotonic()
        mine = DatabaseFiles(db.files.store, db.files.path, runtime)
        await undelete(mine)
        assert RETURN_S / 2 - 2 < runtime.monotonic() - began < RETURN_S / 2 + 2
        assert await db.values() == ROWS
        # He goes on, and finds it done; but what was destroyed since is not his to bring back.
        await destroy_softly(mine)
        await runtime.sleep(1)
        stale = Tombstone(NOW_S, returning_s=NOW_S)
        with (
            mock.patch.object(destroying, "_announce", mock.AsyncMock(return_value=stale)),
            pytest.raises(UnavailableError, match="try again"),
        ):
            await undelete(DatabaseFiles(db.files.store, db.files.path, runtime))

    simulate(scenario, 1)


@pytest.mark.parametrize("announces", [True, False])
def test_a_manifest_that_comes_too_late_does_not_look_alive(announces: bool) -> None:
    """The first manifest of a process that brings it back is on its way while another deletes everything; then the process
    dies."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        await destroy_softly(db.files)
        mine, others = (DatabaseFiles(db.files.store, db.files.path, runtime) for _ in range(2))

        async def late(after_id: int, data: Buffer) -> int:
            await destroy_hard(others)
            await mine.store.put(mine.manifests.objects.key(after_id + 1), data)
            raise UnavailableError("it died before it could look whether that counts")

        async def say_nothing(files: DatabaseFiles) -> Tombstone | None:
            return Tombstone.of(announced((await files.manifests.read_latest()).value, now_s=NOW_S))

        def at_once(old: Manifest, *, now_s: int, since_s: int) -> Manifest:
            return undeleted(announced(old, now_s=since_s), now_s=now_s, since_s=since_s)

        unannounced = mock.patch.multiple(destroying, _announce=say_nothing, undeleted=at_once)
        with (
            nullcontext() if announces else unannounced,
            mock.patch.object(mine.manifests.objects, "create_next", late),
            pytest.raises(UnavailableError, match="it died"),
        ):
            await undelete(mine)
        newest = await DatabaseFiles(db.files.store, db.files.path, runtime).manifests.read_latest()
        assert life_of(newest.value) == ("destroyed" if announces else "alive")
        await runtime.sleep(RETURN_S)
        await destroy_hard(others)
        assert await everything(db.store) == []

    simulate(scenario, 1)


async def bounded(runtime: SimulatedRuntime) -> Database:
    """A database with a boundary, which whoever has seen it takes for lost when it is gone."""
    db = await parent(runtime)
    await db.files.manifests.objects.advance_boundary(2)
    return db


def test_who_destroys_it_may_be_slower_than_its_grace() -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await bounded(runtime)

        async def late(files: DatabaseFiles, destroyed: Manifest) -> None:
            await destroy_hard(db.files)
            await files.manifests.read_latest()

        with mock.patch.object(destroying, "_fence", late):
            assert await destroy_softly(db.files) == NOW_S
        assert await everything(db.store) == []
        # A boundary that is missing from what is there is an error as ever.
        db = await bounded(runtime)
        lost = mock.AsyncMock(side_effect=BoundaryLost("gone"))
        with mock.patch.object(destroying, "_fence", lost), pytest.raises(BoundaryLost):
            await destroy_softly(db.files)

    simulate(scenario, 1)


@pytest.mark.parametrize("word", [0, 1, 2], ids=["before", "announcing", "undeleting"])
def test_who_brings_it_back_may_be_slower_than_its_grace(word: int) -> None:
    """What is written when all is gone would stand there alone: it does not stay, and does not look like a loss."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await bounded(runtime)
        await destroy_softly(db.files)
        mine = db.files
        await mine.manifests.read_latest()
        create, words = mine.manifests.objects.create_next, []

        async def late(after_id: int, data: Buffer) -> int:
            words.append(after_id)
            if len(words) == word:
                await runtime.sleep(RETURN_S)
                await destroy_hard(db.files)
            return await create(after_id, data)

        if word == 0:
            await destroy_hard(db.files)
        with mock.patch.object(mine.manifests.objects, "create_next", late), pytest.raises(NothingStored):
            await undelete(mine)
        assert await everything(db.store) == []

    simulate(scenario, 1)


def test_a_boundary_that_goes_while_one_looks() -> None:
    """Of two who delete the database for good, the slower one has just read the boundary."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await bounded(runtime)
        await destroy_softly(db.files)
        await db.files.manifests.update(partial(claimed_for_deletion, now_ms=runtime.now_ms()))
        get = db.store.get

        async def then_gone(key: str, *, if_none_match: str | None = None) -> Object:
            found = await get(key, if_none_match=if_none_match)
            if key.endswith("manifest.boundary"):
                await db.store.delete([key])
            return found

        with mock.patch.object(db.store, "get", then_gone):
            await destroy_hard(db.files)
        assert await everything(db.store) == []

    simulate(scenario, 1)


@pytest.mark.parametrize(("comes", "left"), [(3, False), (1, True)], ids=["stale", "of a new database"])
def test_a_manifest_that_comes_behind_a_deletion(comes: int, left: bool) -> None:
    """A stale one goes too; but not the first one of somebody who began anew as soon as the path was free."""

    async def scenario(runtime: SimulatedRuntime) -> None:
        db = await parent(runtime)
        store, newest = db.files.store, (await db.files.manifests.read_latest()).id
        key, last = (f"parent/manifest/{number:020}.manifest" for number in (comes, newest + 1))
        data, delete = (await store.get(key)).data, store.delete

        async def then_put(keys: Sequence[str]) -> None:
            await delete(keys)
            if last in keys:
                await store.put(key, data)

        with mock.patch.object(store, "delete", then_put):
            await destroy_hard(db.files)
        assert await everything(db.store) == ([key.rpartition("/")[2]] if left else [])

    simulate(scenario, 1)
