""":class:`Compactions` to bytes, in version 2."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format.columns import I64
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.field import Field
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.flatbuf.writer import Builder, Refs
from slate_engine.format.ids import Ids
from slate_engine.state.compactions import Compactions, Context, DrainSpec, Spec, TieredSpec, Worker
from slate_engine.state.envelope import PREFIX
from slate_engine.state.ranges import Ranges
from slate_engine.state.sst_tables import write_ids, write_infos, write_ranges
from slate_engine.state.ssts import NO_SSTS, Ssts


class InvalidCompactions(InvalidError):
    """A book that must not be written: SlateDB would refuse every later change to it. What is stored has not changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"these compactions must not be written: {reason}")


def validate_compactions(compactions: Compactions) -> None:
    """Raise :class:`InvalidCompactions` unless it is safe to write this. Called before every write."""
    for job in compactions.jobs:
        if isinstance(job.spec, DrainSpec) and not job.spec.segment:
            raise InvalidCompactions(f"compaction {job.id} drains the root tree, which is no segment")
        if any(len(outputs) and int(outputs.id.ms.min()) < job.id.ms for outputs in job.all_outputs()):
            raise InvalidCompactions(
                f"an output of compaction {job.id} is older than the compaction: its SSTs must be named after it began"
            )
    if any(before.id >= after.id for before, after in itertools.pairwise(compactions.jobs)):
        raise InvalidCompactions("the ids of compactions must ascend")


def check_compactions_succession(before: Compactions, after: Compactions) -> None:
    """Raise :class:`InvalidCompactions` unless ``after`` may follow ``before``: a job must not be older than those that
    were there, because garbage collection goes by the oldest of them."""
    if after.compactor_epoch < before.compactor_epoch:
        raise InvalidCompactions("the compactor's epoch must not go back: it fences those who had a smaller one")
    known = {job.id for job in before.jobs}
    newest_ms = max((id.ms for id in known), default=0)
    for job in after.jobs:
        if job.id.ms < newest_ms and job.id not in known:
            raise InvalidCompactions(f"the new compaction {job.id} is older than those in the book: name it anew")


def encode_compactions(compactions: Compactions) -> bytes:
    validate_compactions(compactions)
    to = layout.Compaction
    jobs = compactions.jobs
    builder = Builder()
    contexts = [job.context for job in jobs]
    spec_types, specs = _specs(builder, [job.spec for job in jobs])
    tables = builder.tables(
        len(jobs),
        {
            to.id: write_ids(builder, Ids.of(job.id for job in jobs)),
            to.spec_type: spec_types,
            to.spec: specs,
            to.status: np.array([job.status for job in jobs], np.int64),
            to.output_ssts: _outputs(builder, [job.outputs for job in jobs]),
            to.worker: _workers(builder, [job.worker for job in jobs]),
            to.ctx_type: np.array([context is not None for context in contexts], np.int64),
            to.ctx: _contexts(builder, contexts),
        },
    )
    root = builder.table(
        {
            layout.CompactionsV1.compactor_epoch: compactions.compactor_epoch,
            layout.CompactionsV1.recent_compactions: builder.vector(tables),
        }
    )
    return builder.finish(root, PREFIX)


def _specs(builder: Builder, specs: Sequence[Spec]) -> tuple[I64, Refs]:
    """The tags and the tables of the union."""
    tiered = [spec for spec in specs if isinstance(spec, TieredSpec)]
    drains = [spec for spec in specs if isinstance(spec, DrainSpec)]
    is_tiered = np.array([isinstance(spec, TieredSpec) for spec in specs], np.bool_)
    to, to_drain = layout.TieredCompactionSpec, layout.DrainSegmentSpec
    refs = np.empty(len(specs), np.int64)
    refs[is_tiered] = builder.tables(
        len(tiered),
        {
            **_sources(builder, tiered, to.segment, to.l0_view_ids, to.sorted_runs),
            to.destination: np.array([spec.destination for spec in tiered], np.int64),
        },
    )
    refs[~is_tiered] = builder.tables(
        len(drains), _sources(builder, drains, to_drain.segment, to_drain.l0_view_ids, to_drain.sorted_runs)
    )
    kinds = layout.CompactionSpecType
    return np.where(is_tiered, kinds.TIERED_COMPACTION_SPEC, kinds.DRAIN_SEGMENT_SPEC), refs


def _sources(builder: Builder, specs: Sequence[Spec], segment: Field, views: Field, runs: Field) -> dict[Field, Refs]:
    ids = write_ids(builder, Ids.of(id for spec in specs for id in spec.l0_views))
    numbers = np.array([run for spec in specs for run in spec.sorted_runs], np.uint64)
    return {
        segment: builder.strings(Spans.of(spec.segment for spec in specs), terminated=False),
        views: builder.vectors(ids, _offsets(len(spec.l0_views) for spec in specs), omit_empty=True),
        runs: builder.numbers(numbers, _offsets(len(spec.sorted_runs) for spec in specs), omit_empty=True),
    }


def _outputs(builder: Builder, groups: Sequence[Ssts]) -> Refs:
    """A vector of SSTs for each group that has any."""
    to = layout.CompactedSsTable
    ssts = Ssts.concat([group for group in groups if len(group)] or [NO_SSTS])
    tables = builder.tables(
        len(ssts),
        {
            to.id: write_ids(builder, ssts.id),
            to.info: write_infos(builder, ssts),
            to.format_version: ssts.format_version,
        },
    )
    return builder.vectors(tables, _offsets(map(len, groups)), omit_empty=True)


def _workers(builder: Builder, workers: Sequence[Worker | None]) -> Refs:
    to = layout.WorkerSpec
    claimed = [worker for worker in workers if worker is not None]
    refs = np.zeros(len(workers), np.int64)
    refs[[worker is not None for worker in workers]] = builder.tables(
        len(claimed),
        {
            to.worker_id: builder.texts([worker.id for worker in claimed]),
            to.last_heartbeat_ms: np.array([worker.last_heartbeat_ms for worker in claimed], np.uint64),
        },
    )
    return refs


def _contexts(builder: Builder, contexts: Sequence[Context | None]) -> Refs:
    to, to_part = layout.TieredCompactionContext, layout.Subcompaction
    present = [context for context in contexts if context is not None]
    parts = [part for context in present for part in context.subcompactions]
    tables = builder.tables(
        len(parts),
        {
            to_part.range: write_ranges(builder, Ranges.of(part.range for part in parts)),
            to_part.output_ssts: _outputs(builder, [part.outputs for part in parts]),
            to_part.status: np.array([part.status for part in parts], np.int64),
        },
    )
    offsets = _offsets(len(context.subcompactions) for context in present)
    refs = np.zeros(len(contexts), np.int64)
    refs[[context is not None for context in contexts]] = builder.tables(
        len(present),
        {
            to.subcompactions: builder.vectors(tables, offsets, omit_empty=True),
            to.retention_min_seq: np.array([context.retention_min_seq for context in present], np.uint64),
        },
    )
    return refs


def _offsets(lengths: Iterable[int]) -> I64:
    return np.cumsum([0, *lengths], dtype=np.int64)
