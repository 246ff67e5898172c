"""Databases whose every object we wrote, read and then written to by the original."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.format.key_range import ALL
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from tests.interop import original, ours
from tests.interop.author import Author
from tests.interop.history import Kind, Model, Operation
from tests.interop.original import Original
from tests.interop.plan import Plan, play_ours, play_theirs
from tests.interop.strategies import LONG_AGO_MS, UNSHRUNK, plans
from tests.interop.style import Style
from tests.share import share_of


async def check(folder: Path, author: Author) -> None:
    """The original and we both give what the model says, of the newest state and of every checkpoint."""
    them, us = Original(folder, author.style), ours.database(author.store, author.path, author.style)
    ids = {each.name: str(each.id) for each in author.manifest.checkpoints}
    await ours.check(await us.latest(), author.model.rows(), absent=author.model.versions)
    for checkpoint, model in [(None, author.model), *((ids[name], kept) for name, kept in author.checkpoints.items())]:
        expected = model.rows()
        async with them.reader(author.path, checkpoint) as reader:
            assert ours.brief(await original.scan(reader)) == ours.brief(expected)
            assert ours.brief(await original.scan(reader, descending=True)) == ours.brief(expected[::-1])
            for key in ours.every(sorted(model.versions), 40):
                assert await original.get(reader, key) == model.row(key)
                assert await original.get(reader, key + b"\0") == model.row(key + b"\0")
        if checkpoint is not None:
            assert ours.brief(await ours.scan(await us.checkpoint(checkpoint))) == ours.brief(expected)


async def original_reads(plan: Plan) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        author = await Author(ours.folder_store(folder), "parent", plan.style).create()
        await play_ours(author, plan.steps)
        await check(folder, author)
        clone = await author.clone("some/clone", plan.part)
        await clone.reopen()
        await play_ours(clone, plan.further)
        await check(folder, clone)
        await check(folder, author)


async def original_takes_over(plan: Plan, compactor: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        author = await Author(ours.folder_store(folder), "parent", plan.style).create()
        await play_ours(author, plan.steps)
        clone = await author.clone("clone", plan.part)
        them = Original(folder, plan.style)
        for database in (author, clone):
            model = database.model
            await play_theirs(them, database.path, plan.further, model, compactor=compactor)
            us = await ours.database(database.store, database.path, plan.style).latest()
            rows = await them.rows(database.path)
            await ours.check(us, rows, absent=model.versions)
            steady = {key for key in model.versions if not has_expired(model, key)}
            assert ours.brief([row for row in rows if row.key in steady]) == ours.brief(
                [row for row in model.rows() if row.key in steady]
            )


def has_expired(model: Model, key: bytes) -> bool:
    """Whether a version of the key may be gone: whoever rewrites an expired row drops it."""
    return any(version.expire_ts == LONG_AGO_MS for version in model.versions[key])


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD], ids=lambda codec: codec.name)
@pytest.mark.parametrize("drop", [False, True])
async def test_versions_that_straddle_ssts(tmp_path: Path, codec: Codec, drop: bool) -> None:
    """A key whose operands and values fill many SSTs of a run, of which each may be the one that ends a read."""
    author = await Author(ours.folder_store(tmp_path), "db", Style(SstOptions(codec=codec))).create()
    for n in range(40):
        await author.commit(
            [
                Operation(Kind.MERGE, b"operands", b"%d," % n),
                Operation(Kind.MERGE if n % 13 else Kind.PUT, b"some values", b"%d," % n),
                Operation(Kind.MERGE if n % 17 else Kind.DELETE, b"some tombstones", b"%d," % n if n % 17 else b""),
                Operation(Kind.PUT, b"values", b"%d," % n),
            ]
        )
        if n % 9 == 8:
            await author.flush()
            await author.compact(0, 8, 8, [cut / 23 for cut in range(23)], split=False, drop=drop)
    await author.flush_wal()
    (run,) = author.manifest.root.runs
    spread = [sum(key in (view.key_range or ALL) for view in run.views) for key in author.model.versions]
    assert max(spread) >= 5
    await check(tmp_path, author)


@settings(max_examples=12, phases=UNSHRUNK)
@given(plans())
async def test_random_databases(plan: Plan) -> None:
    await original_reads(plan)


@settings(max_examples=10, phases=UNSHRUNK)
@given(plans(), st.booleans())
async def test_random_databases_that_the_original_takes_over(plan: Plan, compactor: bool) -> None:
    await original_takes_over(plan, compactor)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(300))
@given(plans())
async def test_many_random_databases(plan: Plan) -> None:
    await original_reads(plan)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(200))
@given(plans(), st.booleans())
async def test_many_random_databases_that_the_original_takes_over(plan: Plan, compactor: bool) -> None:
    await original_takes_over(plan, compactor)
