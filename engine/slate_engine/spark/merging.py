"""A part of a compaction, as an executor does it: the rows of one range of keys, merged into SSTs.

Whatever the range, it is the merge of any compaction (:mod:`slate_engine.lsm.compaction.execution`), on a manifest that the
driver holds for all of them. An attempt that fails leaves SSTs that nobody shows, as a worker that dies does.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.compaction.execution import Execution
from slate_engine.lsm.compaction.options import MergeOptions
from slate_engine.lsm.compaction.resources import Resources
from slate_engine.lsm.visible import MAX_SEQ
from slate_engine.spark.jobs.requests import counting
from slate_engine.spark.options import Location
from slate_engine.spark.reading import State, manifest_of, opened
from slate_engine.state.compactions import Compaction, Context, Subcompaction
from slate_engine.state.ssts import SstHandle


@dataclass(frozen=True)
class MergeTask:
    """What an executor is told."""

    location: Location
    merge_operator: str
    manifest_id: int
    checkpoint: str
    """The id of the one that keeps it."""
    job: Compaction
    keys: KeyRange
    retention_min_seq: int
    options: MergeOptions
    memory_bytes: int


@dataclass(frozen=True)
class Merged:
    """What it answers."""

    outputs: tuple[SstHandle, ...]
    rows_read: int
    rows_written: int
    bytes_read: int
    requests: dict[str, int]


def merge_range(task: MergeTask) -> Merged:
    return asyncio.run(_merge(task))


async def _merge(task: MergeTask) -> Merged:
    requests = counting()
    async with opened(task.location, task.merge_operator) as files:
        state = State(task.location, task.manifest_id, MAX_SEQ, checkpoint=task.checkpoint)
        manifest = await manifest_of(files, task.manifest_id, state.life)
        # The job as if its one range had been planned and nothing of it were done.
        context = Context((Subcompaction(task.keys),), task.retention_min_seq)
        resources = Resources(1, task.memory_bytes)
        execution = Execution(files, replace(task.job, context=context), manifest, task.options, resources)
        outputs = await execution.run()
    return Merged(tuple(outputs), execution.rows_read, execution.rows_written, execution.bytes_read, requests())
