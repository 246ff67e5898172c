"""Manifests and compactions of the original, decoded and encoded by us: the original finds the same in both."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from slate_engine.format.filters import FixedPrefix
from slate_engine.format.key_range import ALL
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from tests.interop import ours
from tests.interop.history import Kind, Model, Operation
from tests.interop.original import Original, plain
from tests.interop.plan import Flush, Plan, Write, play_theirs
from tests.interop.strategies import UNSHRUNK, plans
from tests.interop.style import Style
from tests.share import share_of


def rewrite(folder: Path, source: int, target: int) -> None:
    """Put what we understood of one object of a numbered folder under another number."""
    kind = folder.name
    data = (folder / f"{source:020d}.{kind}").read_bytes()
    if kind == "manifest":
        encoded = encode_manifest(decode_manifest(data, object=kind))
    else:
        encoded = encode_compactions(decode_compactions(data, object=kind))
    (folder / f"{target:020d}.{kind}").write_bytes(encoded)


def numbers(folder: Path) -> list[int]:
    return sorted(int(path.stem) for path in folder.glob("*")) if folder.exists() else []


def content(record: Any) -> Any:
    """All but the number of the object."""
    return {**plain(record), "id": None}


async def same_after_rewriting(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as name:
        them = Original(Path(name), plan.style)
        await play_theirs(them, "db", plan.steps, Model(), compactor=True)
        await them.clone([("db", None, ALL)], "clone")
        await play_theirs(them, "clone", plan.further, Model(), compactor=True)
        for path in ("db", "clone"):
            rows = await them.rows(path)
            await same_manifests(them, path)
            await same_compactions(them, path)
            assert ours.brief(await them.rows(path)) == ours.brief(rows)
            # Whoever writes next reads what we wrote, and builds on it.
            await play_theirs(them, path, plan.further, Model(), compactor=True)
            us = await ours.database(ours.folder_store(them.folder), path, them.style).latest()
            assert ours.brief(await ours.scan(us)) == ours.brief(await them.rows(path))


async def same_manifests(them: Original, path: str) -> None:
    admin, folder = them.admin(path), them.folder / path / "manifest"
    present = numbers(folder)
    for place, source in enumerate(present, 1):
        target = present[-1] + place
        rewrite(folder, source, target)
        assert content(await admin.read_manifest(target)) == content(await admin.read_manifest(source))
    # The newest copy is that of the newest; what the records do not show, the original tells in other ways.
    tracked = decode_manifest((folder / f"{present[-1]:020d}.manifest").read_bytes(), object="").sequence_tracker
    for seq, second in zip(tracked.seq.tolist(), tracked.time_s.tolist(), strict=True):
        assert await admin.get_timestamp_for_sequence(seq, False) == second


async def same_compactions(them: Original, path: str) -> None:
    admin, folder = them.admin(path), them.folder / path / "compactions"
    present = numbers(folder)
    for place, source in enumerate(present, 1):
        target = present[-1] + place
        rewrite(folder, source, target)
        assert content(await admin.read_compactions(target)) == content(await admin.read_compactions(source))


async def test_checkpoints_of_all_kinds(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    await play_theirs(them, "db", [Write((Operation(Kind.PUT, b"k", b"v"),)), Flush()], Model())
    plain_one = await them.create_checkpoint("db")
    named = await them.create_checkpoint("db", "with a näme", lifetime_ms=3_600_000)
    copied = await them.create_checkpoint("db", source=named)
    await them.admin("db").refresh_checkpoint(copied, 7_200_000)
    await same_manifests(them, "db")
    listed = {each.id: each for each in await them.admin("db").list_checkpoints(None)}
    assert set(listed) == {plain_one, named, copied}
    assert listed[named].name == "with a näme"
    assert listed[copied].manifest_id == listed[named].manifest_id
    assert listed[plain_one].expire_time_secs is None
    # What the original does to checkpoints next, it does to ours.
    await them.admin("db").delete_checkpoint(named)
    us = ours.database(ours.folder_store(tmp_path), "db", Style())
    assert {str(each.id) for each in (await us.manifest()).checkpoints} == {plain_one, copied}


async def test_compactions_that_wait(tmp_path: Path) -> None:
    """Jobs that were asked for, written anew by us: the original's compactor finds them, and does them."""
    them = Original(tmp_path, Style(segments=FixedPrefix(2)))
    model = Model()
    writes = [Write((Operation(Kind.PUT, b"aa%d" % n, b"v"), Operation(Kind.PUT, b"bb%d" % n, b"v"))) for n in range(9)]
    await play_theirs(them, "db", [step for write in writes for step in (write, Flush())], model, compactor=True)
    drained = await them.drain("db", b"aa")
    await same_compactions(them, "db")
    async with them.writer("db", compactor=True):
        assert await them.compacted("db", drained)
        assert await them.compact("db", 1, 5, 0)
    await same_compactions(them, "db")
    await same_manifests(them, "db")
    rows = [row for row in model.rows() if row.key.startswith(b"bb")]
    assert await them.rows("db") == rows
    await ours.check(await ours.database(ours.folder_store(tmp_path), "db", them.style).latest(), rows)


@settings(max_examples=6, phases=UNSHRUNK)
@given(plans())
async def test_random_databases(plan: Plan) -> None:
    await same_after_rewriting(plan)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(150))
@given(plans())
async def test_many_random_databases(plan: Plan) -> None:
    await same_after_rewriting(plan)
