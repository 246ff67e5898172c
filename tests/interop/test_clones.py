"""Our clones and the original's: the same manifests, the same rows, and each goes on with what the other began."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings

from slate_engine.admin import cloning
from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.copying import copy_database
from slate_engine.admin.destroying import destroy_hard
from slate_engine.errors import InvalidError
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.gc.collector import collect_once
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.manifest import Manifest
from tests.interop import ours
from tests.interop.history import Model, Row
from tests.interop.original import Original
from tests.interop.plan import Plan, play_theirs
from tests.interop.strategies import UNSHRUNK, plans
from tests.interop.style import Style
from tests.interop.test_gc import BUSY, COMPACTING
from tests.share import share_of
from tests.unit.state.wheel import our_manifest, wheels_manifest

REQUEST = UUID(int=1, version=4)
pytestmark = pytest.mark.usefixtures("no_linger")


def files(them: Original, path: str) -> DatabaseFiles:
    return ours.database(ours.folder_store(them.folder), path, them.style)


async def newest(them: Original, path: str) -> Manifest:
    return (await files(them, path).manifests.read_latest()).value


def content(manifest: Manifest) -> dict[str, Any]:
    """What a manifest says, but for ids that are drawn."""
    plain = our_manifest(manifest)
    plain["external_dbs"] = [(path, sorted(ssts)) for path, _, _, ssts in plain["external_dbs"]]
    plain["tracker"] = list(manifest.sequence_tracker.seq), manifest.segment_extractor_name
    return plain


def without_view_ids(plain: Any) -> Any:
    """A union of ours renews those that repeat."""
    match plain:
        case dict():
            return {
                name: without_view_ids(value) for name, value in plain.items() if name != "id" or "sst" not in plain
            }
        case list() | tuple():
            return [without_view_ids(each) for each in plain]
        case _:
            return plain


def shown(manifest: Manifest) -> list[Any]:
    """The keys that each view lets through. The original may write the same range in another way."""
    return [[(view.sst.id, view.key_range) for views in tree.views() for view in views] for tree in manifest.trees]


async def same_clones(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as name:
        them = Original(Path(name), plan.style)
        await play_theirs(them, "db", plan.steps, Model(), **COMPACTING)
        rows = await them.rows("db")
        kept = await create_checkpoint(files(them, "db"), CheckpointOptions(whole_log=True))
        await them.clone([("db", str(kept.id), ALL)], "theirs")
        await create_clone(files(them, "ours"), [CloneSource("db", kept.id)])
        assert content(await newest(them, "ours")) == content(await newest(them, "theirs"))
        assert wheels_manifest(await them.admin("ours").read_manifest(None)) == our_manifest(await newest(them, "ours"))
        await create_clone(files(them, "present"), [CloneSource("db")])
        await copy_database(files(them, "db"), files(them, "copy"))
        for path in ("ours", "theirs", "present", "copy"):
            assert ours.brief(await them.rows(path)) == ours.brief(rows), path
            assert ours.brief(await ours.scan(await files(them, path).latest())) == ours.brief(rows), path
        await create_clone(files(them, "second"), [CloneSource("ours")])
        # The original takes over, and we read what it makes of them.
        for path in ("second", "copy", "ours"):
            await play_theirs(them, path, plan.further, Model(), **COMPACTING)
            assert ours.brief(await ours.scan(await files(them, path).latest())) == ours.brief(await them.rows(path))
        assert ours.brief(await them.rows("db")) == ours.brief(rows)
        await same_part(them, plan.part, rows)


async def same_part(them: Original, part: KeyRange, rows: list[Row]) -> None:
    """A range of a database, when all of it is in SSTs."""
    await them.settle("db")
    kept = await create_checkpoint(files(them, "db"), CheckpointOptions(whole_log=True))
    rows = [row for row in await them.rows("db") if row.key in part]
    await create_clone(files(them, "part"), [CloneSource("db", kept.id, part)])
    if part != ALL:
        await them.clone([("db", str(kept.id), part)], "their part")
        assert shown(await newest(them, "part")) == shown(await newest(them, "their part"))
    assert ours.brief(await them.rows("part")) == ours.brief(rows)
    assert ours.brief(await ours.scan(await files(them, "part").latest())) == ours.brief(rows)


@settings(max_examples=8, phases=UNSHRUNK)
@given(plans())
async def test_random_databases(plan: Plan) -> None:
    await same_clones(plan)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(120))
@given(plans())
async def test_many_random_databases(plan: Plan) -> None:
    await same_clones(plan)


@pytest.fixture
async def them(tmp_path: Path) -> Original:
    """One database with two runs and L0, whose log is empty, and a second one with other keys."""
    original = Original(tmp_path, Style())
    await play_theirs(original, "db", BUSY, Model(), **COMPACTING)
    await original.settle("db")
    return original


async def test_unions(them: Original) -> None:
    halves = KeyRange.half_open(None, b"c"), KeyRange.half_open(b"c", None)
    rows = await them.rows("db")
    for number, half in enumerate(halves):
        await them.clone([("db", None, half)], f"half {number}")
    sources = [CloneSource("half 0"), CloneSource("half 1")]
    await them.clone([("half 0", None, ALL), ("half 1", None, ALL)], "theirs")
    await create_clone(files(them, "ours"), sources, id=REQUEST)
    mine, other = await newest(them, "ours"), await newest(them, "theirs")
    assert shown(mine) == shown(other)
    plain, others = ({**content(each), "external_dbs": None} for each in (mine, other))
    assert without_view_ids(plain) == without_view_ids(others)
    entries = [
        sorted((each.path, sorted(each.sst_ids)) for each in manifest.external_dbs) for manifest in (mine, other)
    ]
    # An entry of nothing is one that we do not leave out: it tells whom the clone was made of.
    assert [entry for entry in entries[0] if entry[1]] == [entry for entry in entries[1] if entry[1]]
    for path in ("ours", "theirs"):
        assert ours.brief(await them.rows(path)) == ours.brief(rows)
        assert ours.brief(await ours.scan(await files(them, path).latest())) == ours.brief(rows)
    for number, half in enumerate(halves):
        part = [row for row in rows if row.key in half]
        assert ours.brief(await ours.scan(await files(them, f"half {number}").latest())) == ours.brief(part)
    await create_clone(files(them, "ours"), sources, id=REQUEST)  # once more changes nothing
    assert await newest(them, "ours") == mine
    async with them.writer("ours") as db:
        await db.put(b"new", b"row")
    assert [row.key for row in await them.rows("ours")] == sorted([*(row.key for row in rows), b"new"])


async def test_the_original_finishes_what_we_began(them: Original, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = await them.rows("db")

    async def stopped(*args: object) -> None:
        raise InvalidError("stopped")

    for step in ("_keep", "_copy_log"):
        with monkeypatch.context() as patch:
            patch.setattr(cloning, step, stopped)
            with pytest.raises(InvalidError, match="stopped"):
                await create_clone(files(them, step), [CloneSource("db")])
        assert not (await newest(them, step)).initialized
        await them.clone([("db", None, ALL)], step)
        assert ours.brief(await them.rows(step)) == ours.brief(rows)
        finals = {each.final_checkpoint_id for each in (await newest(them, step)).external_dbs}
        assert finals <= {each.id for each in await list_checkpoints(files(them, "db"))}


async def test_we_know_a_clone_of_the_originals_again(them: Original) -> None:
    id = UUID(await them.create_checkpoint("db"))
    await them.clone([("db", str(id), ALL)], "theirs")
    manifest = await newest(them, "theirs")
    await create_clone(files(them, "theirs"), [CloneSource("db", id)])
    assert await newest(them, "theirs") == manifest


async def test_we_detach_and_destroy_a_clone_of_the_originals(them: Original) -> None:
    await them.clone([("db", None, ALL)], "theirs")
    rows = await them.rows("theirs")
    (final,) = [each.final_checkpoint_id for each in (await newest(them, "theirs")).external_dbs]
    # All of it is rewritten, so that it needs its parent no more.
    async with them.writer("theirs", **COMPACTING) as db:
        await db.put(b"new", b"row")
        await db.flush()
        manifest = await newest(them, "theirs")
        assert await them.compact("theirs", 0, len(manifest.root.l0), len(manifest.root.runs))
    await collect_once(files(them, "theirs"))
    manifest = await newest(them, "theirs")
    held = {each.id for each in await list_checkpoints(files(them, "db"))}
    if manifest.checkpoints:
        # What the compaction keeps of its inputs keeps the parent, too.
        assert final in held
    else:
        assert manifest.external_dbs == ()
        assert final not in held
    assert [row.key for row in await them.rows("theirs")] == sorted([*(row.key for row in rows), b"new"])
    with pytest.raises(InvalidError, match="no database"):
        await destroy_hard(files(them, "nowhere"))
    for checkpoint in (await newest(them, "theirs")).checkpoints:
        await them.admin("theirs").delete_checkpoint(str(checkpoint.id))
    await destroy_hard(files(them, "theirs"))
    assert final not in {each.id for each in await list_checkpoints(files(them, "db"))}
    assert ours.brief(await them.rows("db")) == ours.brief(rows)
