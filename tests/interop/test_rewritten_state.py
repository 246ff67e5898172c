"""Manifests and compactions of the original, decoded and encoded by us: the original finds the same in both."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from slate_engine.format.key_range import ALL
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from tests.interop import ours
from tests.interop.history import Model
from tests.interop.original import Original, plain
from tests.interop.plan import Plan, play_theirs
from tests.interop.strategies import UNSHRUNK, plans


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


@settings(max_examples=6, phases=UNSHRUNK)
@given(plans())
async def test_random_databases(plan: Plan) -> None:
    await same_after_rewriting(plan)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=300)
@given(plans())
async def test_many_random_databases(plan: Plan) -> None:
    await same_after_rewriting(plan)
