"""Bytes to manifest. Versions 1 and 2 are understood."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import numpy as np

from slate_engine.format.columns import I64
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.field import Field
from slate_engine.format.flatbuf.reader import Source, Tables
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.sst_meta import Buffer
from slate_engine.state.envelope import open_envelope
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.sst_tables import read_ids, read_ranges, read_ssts, read_ulids
from slate_engine.state.ssts import Ssts
from slate_engine.state.tracker import EMPTY_TRACKER, SequenceTracker
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.view_table import ViewTable
from slate_engine.state.views import Views


def decode_manifest(data: Buffer, *, object: str) -> Manifest:
    """``object`` names where the bytes came from, for errors. Raises :class:`CorruptData` or :class:`UnsupportedFormat`,
    also where the trees break a rule that readers must rely on."""
    version, source = open_envelope(data, object=object, versions=(1, 2))
    return _version_1(source) if version == 1 else _version_2(source)


def _version_2(source: Source) -> Manifest:
    of = layout.ManifestV2
    root = source.root()
    segments, _ = root.children(of.segments)
    l0, l0_offsets = _both(root, of.l0, segments, layout.Segment.l0)
    runs, run_offsets = _both(root, of.compacted, segments, layout.Segment.compacted)
    in_runs, view_offsets = runs.children(layout.SortedRunV2.ssts)
    views = _joined(l0, in_runs)
    ranges, visible = read_ranges(views.child(layout.CompactedSsTableView.visible_range))
    ssts, sst = _pool(root, views)
    table = ViewTable(read_ids(views.child(layout.CompactedSsTableView.id)), ssts, sst, ranges, visible)
    markers = [
        *read_ulids(root, of.last_compacted_l0_sst_view_id),
        *read_ulids(segments, layout.Segment.last_compacted_l0_sst_view_id),
    ]
    (run_ids,) = runs.numbers(layout.SortedRunV2.id)
    trees = _trees(table, l0_offsets, run_offsets, run_ids, view_offsets, markers)
    prefixes = [prefix or b"" for prefix in segments.spans(layout.Segment.prefix)]
    # The order of the file does not count; upstream sorts, too.
    listed = sorted(map(Segment, prefixes, trees[1:]), key=lambda segment: segment.prefix)
    (extractor,) = root.strings(of.segment_extractor_name)
    return Manifest(
        **_numbers(root, of),
        trees=_sound(Trees(trees[0], tuple(listed)), views),
        checkpoints=_checkpoints(root, of.checkpoints),
        external_dbs=_external_dbs(root, of.external_dbs),
        sequence_tracker=_tracker(root, of.sequence_tracker),
        segment_extractor_name=extractor,
    )


def _version_1(source: Source) -> Manifest:
    """SSTs stand in the trees themselves; each becomes a view with its own id."""
    of, of_sst = layout.ManifestV1, layout.CompactedSsTable
    root = source.root()
    l0, l0_offsets = root.children(of.l0)
    runs, run_offsets = root.children(of.compacted)
    in_runs, view_offsets = runs.children(layout.SortedRun.ssts)
    views = _joined(l0, in_runs)
    ranges, visible = read_ranges(views.child(of_sst.visible_range))
    ssts = read_ssts(views, of_sst.id, of_sst.info, of_sst.format_version)
    table = ViewTable(ssts.id, ssts, np.arange(len(views)), ranges, visible)
    markers = read_ulids(root, of.l0_last_compacted)
    (run_ids,) = runs.numbers(layout.SortedRun.id)
    (tree,) = _trees(table, l0_offsets, run_offsets, run_ids, view_offsets, markers)
    tree = Tree(tree.l0, tree.runs, tree.last_compacted_l0_view, last_compacted_l0_sst=tree.last_compacted_l0_view)
    (uri,) = root.strings(of.wal_object_store_uri)
    return Manifest(
        **_numbers(root, of),
        trees=_sound(Trees(tree), views),
        checkpoints=_checkpoints(root, of.checkpoints),
        external_dbs=_external_dbs(root, of.external_dbs),
        sequence_tracker=_tracker(root, of.sequence_tracker),
        wal_object_store_uri=uri,
    )


def _numbers(root: Tables, of: type[layout.ManifestV1] | type[layout.ManifestV2]) -> dict[str, Any]:
    """The fields that are plain numbers: they have the same names in both versions, and in :class:`Manifest`."""
    fields = (
        of.initialized,
        of.writer_epoch,
        of.compactor_epoch,
        of.replay_after_wal_id,
        of.wal_id_last_seen,
        of.last_l0_clock_tick,
        of.last_l0_seq,
        of.recent_snapshot_min_seq,
    )
    numbers: dict[str, Any] = {field.name: value for field, (value,) in zip(fields, root.numbers(*fields), strict=True)}
    return numbers | {"initialized": bool(numbers["initialized"])}


def _both(root: Tables, of_root: Field, segments: Tables, of_segment: Field) -> tuple[Tables, I64]:
    """The same vector of the root and of every segment, as if the root were the first of them."""
    first, first_offsets = root.children(of_root)
    others, other_offsets = segments.children(of_segment)
    return _joined(first, others), np.append(first_offsets[:1], other_offsets + len(first))


def _joined(first: Tables, then: Tables) -> Tables:
    return Tables(first.source, np.concatenate([first.at, then.at])) if len(then) else first


def _pool(root: Tables, views: Tables) -> tuple[Ssts, I64]:
    """The SSTs in ascending order of ids, and which one each view shows."""
    of = layout.CompactedSsTableV2
    tables, _ = root.children(layout.ManifestV2.ssts)
    ssts = read_ssts(tables, of.id, of.info, of.format_version)
    order = ssts.id.order()
    if order is not None:
        ssts = ssts.take(order)
        twice = np.flatnonzero(~ssts.id.distinct())
        if len(twice):
            raise tables.error(f"SST {ssts.id[int(twice[0])]} is listed twice", int(order[twice[0]]))
    wanted = read_ids(views.child(layout.CompactedSsTableView.sst_id))
    sst = ssts.id.find(wanted)
    lost = np.flatnonzero(sst < 0)
    if len(lost):
        raise views.error(f"a view shows SST {wanted[int(lost[0])]}, which is not listed", int(lost[0]))
    return ssts, sst


def _trees(
    table: ViewTable,
    l0_offsets: I64,
    run_offsets: I64,
    run_ids: list[int],
    view_offsets: I64,
    markers: list[Ulid | None],
) -> list[Tree]:
    """Windows on the table, which holds the views of every L0 and then those of every run."""
    l0_ends, ends, starts = l0_offsets.tolist(), run_offsets.tolist(), (view_offsets + l0_offsets[-1]).tolist()
    runs = [SortedRun(id, Views(table, starts[i], starts[i + 1])) for i, id in enumerate(run_ids)]
    return [
        Tree(Views(table, l0_ends[i], l0_ends[i + 1]), tuple(runs[ends[i] : ends[i + 1]]), marker)
        for i, marker in enumerate(markers)
    ]


def _sound(trees: Trees, views: Tables) -> Trees:
    flaw = trees.flaw
    if flaw is not None:
        raise views.error(flaw.reason, flaw.view) if flaw.view is not None else views.source.error(flaw.reason, 0)
    return trees


def _checkpoints(root: Tables, field: Field) -> tuple[Checkpoint, ...]:
    of = layout.Checkpoint
    tables, _ = root.children(field)
    columns = zip(
        read_ids(tables.child(of.id)).values(),
        *tables.numbers(of.manifest_id, of.checkpoint_expire_time_s, of.checkpoint_create_time_s),
        tables.strings(of.name),
        _writer_epochs(tables),
        strict=True,
    )
    return tuple(
        Checkpoint(UUID(int=id), manifest_id, expire or None, create, name, epoch)
        for id, manifest_id, expire, create, name, epoch in columns
    )


def _writer_epochs(checkpoints: Tables) -> list[int | None]:
    """Of each checkpoint. Metadata of a kind that we do not know says nothing to us, as it says nothing to SlateDB."""
    (kinds,) = checkpoints.u64(layout.Checkpoint.metadata_type)
    writers = kinds == layout.CheckpointMetadataType.WRITER_CHECKPOINT
    tables = checkpoints.where(writers).child(layout.Checkpoint.metadata)
    (epochs,) = tables.numbers(layout.WriterCheckpoint.epoch)
    return [epoch if at else None for epoch, at in zip(epochs, tables.at.tolist(), strict=True)]


def _external_dbs(root: Tables, field: Field) -> tuple[ExternalDb, ...]:
    of = layout.ExternalDb
    tables, _ = root.children(field)
    id_tables, offsets = tables.children(of.sst_ids)
    ids: Ids = read_ids(id_tables)
    columns = zip(
        tables.strings(of.path),
        read_ids(tables.child(of.source_checkpoint_id)).values(),
        read_ulids(tables, of.final_checkpoint_id),
        offsets.tolist(),
        offsets[1:].tolist(),
        strict=False,
    )
    return tuple(
        ExternalDb(
            path or "", UUID(int=source), None if final is None else UUID(int=final.value), ids.take(slice(start, stop))
        )
        for path, source, final, start, stop in columns
    )


def _tracker(root: Tables, field: Field) -> SequenceTracker:
    spans = root.spans(field)
    start, length = int(spans.start[0]), int(spans.length[0])
    if length < 0:
        return EMPTY_TRACKER
    source = root.source
    return SequenceTracker.decode(spans.data[start : start + length], object=source.object, offset=source.base + start)
