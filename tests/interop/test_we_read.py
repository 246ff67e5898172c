"""Databases that the original wrote, read by us: the same rows as its own readers give, to the last timestamp."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.format.key_range import ALL, KeyRange
from tests.interop import original, ours
from tests.interop.history import Model
from tests.interop.original import Original
from tests.interop.plan import Plan, play_theirs
from tests.interop.strategies import UNSHRUNK, plans
from tests.share import share_of

SETTINGS = st.fixed_dictionaries(
    {"compactor": st.booleans(), "l0_sst_size_bytes": st.sampled_from([4096, 65536, 64 << 20])}
)


async def check(them: Original, path: str, model: Model) -> None:
    """The newest state, and every checkpoint that there is."""
    us = ours.database(ours.folder_store(them.folder), path, them.style)
    rows = await them.rows(path)
    await ours.check(await us.latest(), rows, absent=model.versions)
    for checkpoint in (await us.manifest()).checkpoints:
        kept = await us.checkpoint(checkpoint.id)
        async with them.reader(path, str(checkpoint.id)) as reader:
            assert ours.brief(await ours.scan(kept)) == ours.brief(await original.scan(reader))
            for key in ours.every(sorted(model.versions), 20):
                assert await ours.get(kept, key) == await original.get(reader, key)


async def we_read(plan: Plan, options: dict[str, object]) -> None:
    with tempfile.TemporaryDirectory() as name:
        them = Original(Path(name), plan.style)
        first, second = Model(), Model()
        await play_theirs(them, "first", plan.steps, first, **options)
        await check(them, "first", first)
        await play_theirs(them, "second", plan.further, second, **options)
        for checkpoint in (await them.admin("first").list_checkpoints(None))[-1:]:
            await them.clone([("first", checkpoint.id, ALL)], "kept")
            await check(them, "kept", first)
            assert ours.brief(await them.rows("kept")) == ours.brief(await them.rows("first", checkpoint.id))
        await them.clone([("first", None, ALL)], "whole")
        await check(them, "whole", first)
        await play_theirs(them, "whole", plan.further, first, **options)
        await check(them, "whole", first)
        await check_projections(them, plan, first, second)


async def check_projections(them: Original, plan: Plan, first: Model, second: Model) -> None:
    """Parts of a clone and of another database, and a union of two parts."""
    # Only what is in SSTs can be cut to a range.
    for path in ("first", "second"):
        await them.settle(path)
    await them.clone([("first", None, plan.part)], "part")
    await check(them, "part", first)
    if plan.part.start.bounded:
        below = KeyRange.half_open(None, plan.part.start.key)
        await them.clone([("first", None, plan.part), ("second", None, below)], "union")
        await check(them, "union", first)
        await play_theirs(them, "union", plan.further, second)
        await check(them, "union", second)


@settings(max_examples=10, phases=UNSHRUNK)
@given(plans(), SETTINGS)
async def test_random_databases(plan: Plan, options: dict[str, object]) -> None:
    await we_read(plan, options)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(250))
@given(plans(), SETTINGS)
async def test_many_random_databases(plan: Plan, options: dict[str, object]) -> None:
    await we_read(plan, options)
