"""Checkpoints that we make, prolong, delete and go back to, seen by the original."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings

from slate_engine.admin.checkpoints import (
    CheckpointOptions,
    create_checkpoint,
    delete_checkpoint,
    list_checkpoints,
    refresh_checkpoint,
)
from slate_engine.admin.restoring import RestoreOptions, restore
from tests.interop import ours
from tests.interop.history import Model
from tests.interop.original import Original
from tests.interop.plan import Plan, play_theirs
from tests.interop.strategies import UNSHRUNK, plans
from tests.interop.style import Style
from tests.interop.test_clones import files
from tests.interop.test_gc import BUSY, COMPACTING, OURS, collect_once
from tests.share import share_of


async def test_the_original_sees_the_same_checkpoints(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    await play_theirs(them, "db", BUSY, Model(), **COMPACTING)
    for left in await list_checkpoints(files(them, "db")):
        await delete_checkpoint(files(them, "db"), left.id)
    one = await create_checkpoint(files(them, "db"), CheckpointOptions(lifetime_ms=60_000, name="one"))
    two = await create_checkpoint(files(them, "db"), CheckpointOptions(source=one.id, name="two"))
    await refresh_checkpoint(files(them, "db"), one.id, 120_000)
    listed = {each.name: each for each in await them.admin("db").list_checkpoints(None)}
    assert listed.keys() == {"one", "two"}
    assert listed["one"].manifest_id == listed["two"].manifest_id == one.manifest_id == two.manifest_id
    assert listed["one"].expire_time_secs - listed["one"].create_time_secs in (120, 121)
    assert listed["two"].expire_time_secs is None
    await them.admin("db").refresh_checkpoint(str(two.id), 1)
    await delete_checkpoint(files(them, "db"), one.id)
    (last,) = await list_checkpoints(files(them, "db"))
    assert (last.id, last.expire_time_s is not None) == (two.id, True)


async def test_with_the_whole_log_the_original_reads_what_was_durable(tmp_path: Path) -> None:
    them = Original(tmp_path, Style())
    async with them.writer("db") as db:
        await db.put(b"k", b"in the log")
        await db.flush()
        plain = await create_checkpoint(files(them, "db"))
        whole = await create_checkpoint(files(them, "db"), CheckpointOptions(whole_log=True))
        await db.put(b"l", b"later")
        await db.flush()
    assert [row.key for row in await them.rows("db", str(whole.id))] == [b"k"]
    # As the original has it: its manifest knows nothing of the log yet.
    assert len(await them.rows("db", str(plain.id))) <= 1
    assert len(await them.rows("db")) == 2


async def there_and_back(plan: Plan) -> None:
    """Make a database, keep it, go on, go back, go on, and go back to where it had been before."""
    with tempfile.TemporaryDirectory() as name:
        them = Original(Path(name), plan.style)
        await play_theirs(them, "db", plan.steps, Model(), **COMPACTING)
        then = await them.rows("db")
        kept = await create_checkpoint(files(them, "db"), CheckpointOptions(whole_log=True))
        await play_theirs(them, "db", plan.further, Model(), **COMPACTING)
        now = await them.rows("db")
        options = RestoreOptions(extractor=plan.style.segments, sst=plan.style.sst)
        first = await restore(files(them, "db"), kept.id, options)
        for _ in range(2):
            assert ours.brief(await them.rows("db")) == ours.brief(then)
            assert ours.brief(await ours.scan(await files(them, "db").latest())) == ours.brief(then)
            assert ours.brief(await them.rows("db", str(first.kept))) == ours.brief(now)
            report = await collect_once(files(them, "db"), OURS)
            assert report.errors == []
        await play_theirs(them, "db", plan.further, Model(), **COMPACTING)
        assert ours.brief(await ours.scan(await files(them, "db").latest())) == ours.brief(await them.rows("db"))
        await restore(files(them, "db"), first.kept, options)
        assert ours.brief(await them.rows("db")) == ours.brief(now)


@settings(max_examples=8, phases=UNSHRUNK)
@given(plans())
async def test_restored_databases(plan: Plan) -> None:
    await there_and_back(plan)


@pytest.mark.long
@pytest.mark.timeout(1800)
@settings(max_examples=share_of(120))
@given(plans())
async def test_many_restored_databases(plan: Plan) -> None:
    await there_and_back(plan)
