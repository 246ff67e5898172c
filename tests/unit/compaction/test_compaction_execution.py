"""The merge of a whole job: however it is cut up, interrupted and gone on with, the rows are the same."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from slate_engine.format.columns import HAS_CREATE, MERGE, TOMBSTONE
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.execution import Execution
from slate_engine.lsm.compaction.options import MergeOptions
from slate_engine.lsm.compaction.resources import Resources
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.runtime import SystemRuntime
from slate_engine.state.compactions import Compaction, Context, Subcompaction, TieredSpec
from slate_engine.state.ssts import Ssts
from slate_engine.state.views import SstView
from slate_engine.store.memory import MemoryStore
from tests.unit.compaction.databases import SST, Scribe, open_files

RUNTIME = SystemRuntime(threads=2)
EVERY_ROW = MergeOptions(SST, max_sst_size=1, max_subcompactions=2, min_range_bytes=1)
"""With blocks of one row each, and an SST for each block."""


async def make(min_seq: int) -> DatabaseFiles:
    """Three levels in which every key has several versions, most of them too large for two to share a block."""
    files = open_files(MemoryStore(RUNTIME), RUNTIME)
    scribe = await Scribe(files).create()
    chance = random.Random(4)
    for level in range(3):
        rows = []
        for key in range(6):
            for version in range(3):
                kind = chance.choice([0, MERGE, MERGE, MERGE, TOMBSTONE])
                value = b"" if kind == TOMBSTONE else chance.randbytes(700)
                rows.append(Row(b"key%d" % key, value, 10 * level + 9 - version, kind | HAS_CREATE, level, 0))
        await scribe.add(rows)
    await files.manifests.update(lambda old: replace(old, recent_snapshot_min_seq=min_seq))
    return files


async def job_of(files: DatabaseFiles, context: Context | None = None) -> Compaction:
    return Compaction(
        Ulid.new(RUNTIME), TieredSpec(tuple((await files.manifest()).root.l0.ids), (), 0), context=context
    )


async def run(files: DatabaseFiles, options: MergeOptions, context: Context | None = None) -> tuple[list[Row], Context]:
    resources = Resources(max_threads=2, memory_bytes=1 << 20)
    execution = Execution(files, await job_of(files, context), await files.manifest(), options, resources)
    outputs = await execution.run()
    opener = files.tables.opener(await files.manifest())
    tables = [opener(SstView(handle.id, handle)) for handle in outputs]
    rows = [Row(*row) for table in tables for row in (await table.rows(0, len(await table.blocks()))).tuples()]
    assert execution.context is not None
    return rows, execution.context


@pytest.mark.parametrize("min_seq", [0, 14, 29])
async def test_how_a_job_is_cut_up_does_not_show(min_seq: int) -> None:
    files = await make(min_seq)
    whole, _ = await run(files, MergeOptions(SST))
    for size in (1, 1500, 5000):
        for ranges in (1, 2, 4):
            rows, context = await run(files, MergeOptions(SST, size, ranges, min_range_bytes=1))
            assert rows == whole
            assert len(context.subcompactions) == min(ranges, 3), "no range is smaller than an SST"


@pytest.mark.parametrize("min_seq", [0, 14, 29])
async def test_an_interrupted_job_is_gone_on_with_from_any_point(min_seq: int) -> None:
    """Also when the floor has risen meanwhile: what was begun under one rule is ended under it, or a row that was half
    written would be folded into one that is thought to be written."""
    files = await make(min_seq)
    whole, context = await run(files, EVERY_ROW)
    assert len(whole) > 4
    await files.manifests.update(lambda old: replace(old, recent_snapshot_min_seq=old.last_l0_seq))
    first, second = context.subcompactions
    for done in range(len(first.outputs) + 1):
        for also in (0, len(second.outputs) // 2, len(second.outputs)):
            parts = [
                Subcompaction(first.range, first.outputs[:done]),
                Subcompaction(second.range, second.outputs[:also]),
            ]
            rows, _ = await run(files, EVERY_ROW, Context(tuple(parts), context.retention_min_seq))
            assert rows == whole
    rows, _ = await run(files, EVERY_ROW, context)
    assert rows == whole, "what is finished is not touched"


async def test_a_range_that_gives_nothing() -> None:
    files = open_files(MemoryStore(RUNTIME), RUNTIME)
    scribe = await Scribe(files).create()
    await scribe.add([Row(b"k", b"v", 1, HAS_CREATE, 1, 0)])
    await scribe.add([Row(b"k", b"", 2, HAS_CREATE | TOMBSTONE, 1, 0)])
    rows, context = await run(files, MergeOptions(SST))
    assert rows == []
    assert [part.outputs for part in context.subcompactions] == [Ssts.of([])]
