"""Our compactor and the original's: the same input gives the same rows, version for version, and each goes on with what the
other has left."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.format.key_range import ALL
from slate_engine.lsm.compaction.compactor import Report, compact_once
from slate_engine.lsm.compaction.options import CompactorOptions, MergeOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Major, Proposal, next_run_id
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row as StoredRow
from slate_engine.state.compactions import Compactions, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import Tree
from slate_engine.state.views import Views
from tests.interop import ours
from tests.interop.author import Author
from tests.interop.history import Model, Row
from tests.interop.original import Original
from tests.interop.plan import Plan, play_ours, play_theirs
from tests.interop.strategies import plans
from tests.interop.style import Style
from tests.interop.test_they_read import has_expired
from tests.share import share_of

IN_MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where the databases are made: nothing here is about what survives a power cut, and a disk takes its time."""


@dataclass(frozen=True)
class Wanted:
    """Which compaction, and how we are to do it."""

    which: int
    l0: int
    runs: int
    floor: float
    """Where, among all sequence numbers, somebody still reads; 1 if only at the end."""
    subcompactions: int
    memory_bytes: int


WANTED = st.builds(
    Wanted,
    which=st.integers(0, 2),
    l0=st.integers(0, 9),
    runs=st.integers(0, 3),
    floor=st.sampled_from([0.0, 0.3, 0.7, 1.0, 1.0]),
    subcompactions=st.integers(1, 4),
    memory_bytes=st.sampled_from([1, 64 << 20]),
)


@dataclass(frozen=True)
class Asked:
    """A policy that wants one thing."""

    spec: TieredSpec

    def propose(self, manifest: Manifest, book: Compactions, limit: int) -> list[Proposal]:
        return [Proposal(self.spec, "a test")]


def spec_of(manifest: Manifest, wanted: Wanted) -> TieredSpec | None:
    """The oldest of L0 and the newest runs of one tree, as :meth:`Original.compact` takes them."""
    segments = manifest.segments
    prefix = segments[wanted.which % len(segments)].prefix if segments else b""
    tree = manifest.trees.tree(prefix)
    assert tree is not None
    l0, runs = tree.l0[max(len(tree.l0) - wanted.l0, 0) :], tree.runs[: wanted.runs]
    if not l0 and not runs:
        return None
    destination = runs[-1].id if runs else next_run_id(manifest, Compactions())
    return TieredSpec(tuple(l0.ids), tuple(run.id for run in runs), destination, prefix)


def options(style: Style, wanted: Wanted | None = None) -> CompactorOptions:
    """Cut as often as the original is told to."""
    merge = MergeOptions(style.sst, 2 * style.sst.block_size, wanted.subcompactions if wanted else 2, min_range_bytes=1)
    memory = wanted.memory_bytes if wanted else 1 << 20
    return CompactorOptions(worker=WorkerOptions(merge, memory_bytes=memory), commit_compacted_interval=0.01)


async def compact(files: DatabaseFiles, spec: TieredSpec, style: Style, wanted: Wanted) -> Report:
    report = await compact_once(files, Asked(spec), options(style, wanted), force=True)
    assert report.jobs == 1
    assert not report.errors
    return report


async def stored(files: DatabaseFiles, views: Views, manifest: Manifest) -> list[StoredRow]:
    """Every version that these views show."""
    opener = files.tables.opener(manifest)
    parts = [await opener(view).rows_in(view.visible_range or ALL) for view in views]
    return [StoredRow(*row) for part in parts for row in part.tuples()]


async def content(files: DatabaseFiles, prefix: bytes) -> tuple[list[StoredRow], dict[int, list[StoredRow]]]:
    """L0 and the runs of a tree; a run without SSTs is as good as none."""
    manifest = await files.manifest()
    tree = manifest.trees.tree(prefix) or Tree()
    runs = {run.id: await stored(files, run.views, manifest) for run in tree.runs if len(run.views)}
    return await stored(files, tree.l0, manifest), runs


async def both_compact(folder: Path, path: str, style: Style, wanted: Wanted) -> TieredSpec | None:
    """Have a copy compacted by the original, and the database itself by us: they hold the same in the end."""
    files = ours.database(ours.folder_store(folder), path, style)
    spec = spec_of(await files.manifest(), wanted)
    if spec is None:
        return None
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        shutil.copytree(folder, name, dirs_exist_ok=True)
        them = Original(Path(name), style)
        async with them.writer(path, compactor=True):
            assert await them.compact(path, wanted.which, wanted.l0, wanted.runs)
        await compact(files, spec, style, wanted)
        copy = ours.database(ours.folder_store(Path(name)), path, style)
        assert await content(files, spec.segment) == await content(copy, spec.segment)
    return spec


async def check(folder: Path, path: str, style: Style, model: Model, before: Iterable[Row]) -> None:
    """Readers see what they saw before the compaction, but for rows whose time had come."""
    steady = {key for key in model.versions if not has_expired(model, key)}
    expected = ours.brief([row for row in before if row.key in steady])
    us = await ours.database(ours.folder_store(folder), path, style).latest()
    assert ours.brief([row for row in await ours.scan(us) if row.key in steady]) == expected
    theirs = await Original(folder, style).rows(path)
    assert ours.brief([row for row in theirs if row.key in steady]) == expected


async def compacts_alike(plan: Plan, wanted: Wanted) -> None:
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        folder = Path(name)
        author = await Author(ours.folder_store(folder), "parent", plan.style).create()
        await play_ours(author, plan.steps)
        await author.flush()
        clone = await author.clone("some/clone", plan.part)
        await clone.reopen()
        await play_ours(clone, plan.further)
        for database in (author, clone):
            floor = int(database.manifest.last_l0_seq * wanted.floor)
            await database.publish(replace(database.manifest, recent_snapshot_min_seq=floor))
            if await both_compact(folder, database.path, plan.style, wanted) is not None:
                await check(folder, database.path, plan.style, database.model, database.model.rows())


async def takes_turns(plan: Plan, wanted: Wanted) -> None:
    """The original writes and compacts; we compact what it left; then it takes over again."""
    with tempfile.TemporaryDirectory(dir=IN_MEMORY) as name:
        folder = Path(name)
        them, model = Original(folder, plan.style), Model()
        await play_theirs(them, "db", plan.steps, model, compactor=True)
        await both_compact(folder, "db", plan.style, wanted)
        before = await them.rows("db")
        await check(folder, "db", plan.style, model, before)
        files = ours.database(ours.folder_store(folder), "db", plan.style)
        report = await compact_once(files, Major(), options(plan.style, wanted), force=True)
        assert not report.errors
        for tree in (await files.manifest()).trees:
            assert not len(tree.l0)
            assert len(tree.runs) <= 1
        await check(folder, "db", plan.style, model, before)
        await play_theirs(them, "db", plan.further, model, compactor=True)
        after = await them.rows("db")
        await ours.check(await files.latest(), after)
        steady = {key for key in model.versions if not has_expired(model, key)}
        expected = ours.brief([row for row in model.rows() if row.key in steady])
        assert ours.brief([row for row in after if row.key in steady]) == expected


@settings(max_examples=16)
@given(plans(), WANTED)
async def test_the_same_input_gives_the_same_versions(plan: Plan, wanted: Wanted) -> None:
    await compacts_alike(plan, wanted)


@settings(max_examples=8)
@given(plans(), WANTED)
async def test_the_original_and_we_take_turns(plan: Plan, wanted: Wanted) -> None:
    await takes_turns(plan, wanted)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=share_of(600))
@given(plans(), WANTED)
async def test_many_inputs_give_the_same_versions(plan: Plan, wanted: Wanted) -> None:
    await compacts_alike(plan, wanted)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(max_examples=share_of(300))
@given(plans(), WANTED)
async def test_the_original_and_we_take_many_turns(plan: Plan, wanted: Wanted) -> None:
    await takes_turns(plan, wanted)
