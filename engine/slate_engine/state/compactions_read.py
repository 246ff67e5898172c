"""Bytes to :class:`Compactions`. Versions 1 and 2 are understood; they differ in where the destination comes from."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

from slate_engine.errors import UnsupportedFormat
from slate_engine.format.columns import I64
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.field import Field
from slate_engine.format.flatbuf.reader import Tables
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_meta import Buffer
from slate_engine.state.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    Context,
    DrainSpec,
    Spec,
    Subcompaction,
    SubcompactionStatus,
    TieredSpec,
    Worker,
    in_order,
)
from slate_engine.state.envelope import open_envelope
from slate_engine.state.sst_tables import read_ids, read_ranges, read_ssts
from slate_engine.state.ssts import NO_SSTS, Ssts

T = TypeVar("T")

_STATUS = {status.value: status for status in CompactionStatus}
_BEFORE_COMPACTED = (CompactionStatus.SUBMITTED, CompactionStatus.SCHEDULED, CompactionStatus.RUNNING)


def decode_compactions(data: Buffer, *, object: str) -> Compactions:
    """``object`` names where the bytes came from, for errors. Raises :class:`CorruptData` or :class:`UnsupportedFormat`."""
    version, source = open_envelope(data, object=object, versions=(1, 2))
    root = source.root()
    ((epoch,),) = root.numbers(layout.CompactionsV1.compactor_epoch)
    jobs, _ = root.children(layout.CompactionsV1.recent_compactions)
    return Compactions(epoch, in_order(_jobs(jobs, version)))


def _jobs(jobs: Tables, version: int) -> Iterator[Compaction]:
    of = layout.Compaction
    ids = read_ids(jobs.child(of.id))
    order = ids.order()
    if order is not None:
        twice = np.flatnonzero(~ids.take(order).distinct())
        if len(twice):
            raise jobs.error("a compaction is listed twice", int(order[twice[0]]))
    (statuses,) = jobs.numbers(of.status)
    columns = zip(
        ids,
        _specs(jobs, version),
        statuses,
        _outputs(jobs, of.output_ssts),
        _workers(jobs),
        _contexts(jobs),
        strict=True,
    )
    for id, spec, number, outputs, worker, context in columns:
        # A status of a later version is taken for a job that nobody has begun.
        status = _STATUS.get(number, CompactionStatus.SUBMITTED)
        yield Compaction(id, spec, status, NO_SSTS if status in _BEFORE_COMPACTED else outputs, worker, context)


def _specs(jobs: Tables, version: int) -> list[Spec]:
    kinds = _union(jobs, layout.Compaction.spec_type, layout.CompactionSpecType)
    specs = jobs.child(layout.Compaction.spec)
    tiered = _tiered(specs.where(kinds == layout.CompactionSpecType.TIERED_COMPACTION_SPEC), version)
    drains = _drains(specs.where(kinds == layout.CompactionSpecType.DRAIN_SEGMENT_SPEC))
    chosen: list[Spec] = []
    for i, kind in enumerate(kinds.tolist()):
        if kind == layout.CompactionSpecType.TIERED_COMPACTION_SPEC:
            chosen.append(tiered[i])
        elif kind == layout.CompactionSpecType.DRAIN_SEGMENT_SPEC and drains[i].segment:
            chosen.append(drains[i])
        else:
            raise jobs.error("a compaction has no spec, or drains a segment without a name", i)
    return chosen


def _tiered(tables: Tables, version: int) -> list[TieredSpec]:
    of = layout.TieredCompactionSpec
    views, ssts = _ulids(tables, of.l0_view_ids), _ulids(tables, of.ssts)
    runs = _runs(tables, of.sorted_runs)
    (destinations,) = tables.numbers(of.destination)
    segments = tables.spans(of.segment)
    return [
        TieredSpec(
            # Files older than views name SSTs; their views have the same ids.
            l0_views=views[i] if has_views else ssts[i],
            sorted_runs=runs[i],
            destination=destinations[i] if version > 1 else min(runs[i], default=0),
            segment=segments[i] or b"",
        )
        for i, has_views in enumerate(tables.has(of.l0_view_ids).tolist())
    ]


def _drains(tables: Tables) -> list[DrainSpec]:
    of = layout.DrainSegmentSpec
    segments = [segment or b"" for segment in tables.spans(of.segment)]
    return list(map(DrainSpec, segments, _ulids(tables, of.l0_view_ids), _runs(tables, of.sorted_runs)))


def _ulids(tables: Tables, field: Field) -> list[tuple[Ulid, ...]]:
    children, offsets = tables.children(field)
    return _grouped(list(read_ids(children)), offsets)


def _runs(tables: Tables, field: Field) -> list[tuple[int, ...]]:
    numbers, offsets = tables.elements(field)
    return _grouped(numbers.tolist(), offsets)


def _grouped(items: Sequence[T], offsets: I64) -> list[tuple[T, ...]]:
    return [tuple(items[start:stop]) for start, stop in itertools.pairwise(offsets.tolist())]


def _outputs(tables: Tables, field: Field) -> list[Ssts]:
    of = layout.CompactedSsTable
    children, offsets = tables.children(field)
    ssts = read_ssts(children, of.id, of.info, of.format_version)
    return [
        ssts.take(slice(start, stop)) if start < stop else NO_SSTS
        for start, stop in itertools.pairwise(offsets.tolist())
    ]


def _workers(jobs: Tables) -> list[Worker | None]:
    of = layout.WorkerSpec
    tables = jobs.child(layout.Compaction.worker)
    (heartbeats,) = tables.numbers(of.last_heartbeat_ms)
    names = tables.strings(of.worker_id)
    # Without a name the job is unclaimed, whatever else is there.
    return [None if name is None else Worker(name, ms) for name, ms in zip(names, heartbeats, strict=True)]


def _contexts(jobs: Tables) -> list[Context | None]:
    of = layout.TieredCompactionContext
    kinds = _union(jobs, layout.Compaction.ctx_type, layout.CompactionContextType)
    tables = jobs.child(layout.Compaction.ctx).where(kinds != layout.CompactionContextType.NONE)
    lost = np.flatnonzero((kinds != layout.CompactionContextType.NONE) & (tables.at == 0))
    if len(lost):
        raise jobs.error("the context of a compaction is missing", int(lost[0]))
    (floors,) = tables.numbers(of.retention_min_seq)
    children, offsets = tables.children(of.subcompactions)
    parts = _grouped(list(_subcompactions(children)), offsets)
    return [Context(parts[i], floors[i]) if at else None for i, at in enumerate(tables.at.tolist())]


def _subcompactions(tables: Tables) -> Iterator[Subcompaction]:
    of = layout.Subcompaction
    ranges, which = read_ranges(tables.child(of.range))
    (statuses,) = tables.numbers(of.status)
    for range, outputs, number in zip(which.tolist(), _outputs(tables, of.output_ssts), statuses, strict=True):
        done = number == SubcompactionStatus.COMPLETED
        status = SubcompactionStatus.COMPLETED if done else SubcompactionStatus.IN_PROGRESS
        yield Subcompaction(ranges[range], outputs, status)


def _union(tables: Tables, field: Field, known: type[layout.CompactionSpecType | layout.CompactionContextType]) -> I64:
    """The tag of a union, if it is a known one."""
    (tags,) = tables.u64(field)
    unknown = np.flatnonzero(tags >= len(known))
    if len(unknown):
        at = tables.source.base + int(tables.at[unknown[0]])
        raise UnsupportedFormat(
            f"a compaction in {tables.source.object} at byte {at} has the unknown {field.name} {tags[unknown[0]]}: "
            "use the newer SlateDB that wrote it"
        )
    return tags.view(np.int64)
