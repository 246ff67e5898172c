"""Manifest to bytes: version 2, as SlateDB 0.17 writes it, with equal ids and ranges written once."""

from __future__ import annotations

import numpy as np

from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.flatbuf.writer import Builder, Refs
from slate_engine.format.ids import Ids
from slate_engine.state.envelope import PREFIX
from slate_engine.state.flat import FlatTrees
from slate_engine.state.invariants import validate
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.sst_tables import write_ids, write_infos, write_optional_ids, write_ranges


def encode_manifest(manifest: Manifest) -> bytes:
    """Raises :class:`InvalidManifest` rather than write what other processes would trip over."""
    validate(manifest)
    to = layout.ManifestV2
    builder = Builder()
    flat = manifest.trees.flat
    pool = flat.views.ssts
    pool_ids = write_ids(builder, pool.id)
    ssts = builder.tables(
        len(pool),
        {
            layout.CompactedSsTableV2.id: pool_ids,
            layout.CompactedSsTableV2.info: write_infos(builder, pool),
            layout.CompactedSsTableV2.format_version: pool.format_version,
        },
    )
    l0, compacted = _trees(builder, flat, pool_ids)
    markers = write_optional_ids(builder, [tree.last_compacted_l0_view for tree in manifest.trees])
    segments = builder.tables(
        len(manifest.segments),
        {
            layout.Segment.prefix: builder.strings(Spans.of(s.prefix for s in manifest.segments), terminated=False),
            layout.Segment.last_compacted_l0_sst_view_id: markers[1:],
            layout.Segment.l0: l0[1:],
            layout.Segment.compacted: compacted[1:],
        },
    )
    (tracker,) = builder.strings(Spans.of([manifest.sequence_tracker.encode()]), terminated=False)
    (extractor,) = builder.texts([manifest.segment_extractor_name])
    external_dbs = _external_dbs(builder, manifest.external_dbs, pool.id, pool_ids)
    root = builder.table(
        {
            to.external_dbs: builder.vector(external_dbs) if len(external_dbs) else 0,
            to.initialized: int(manifest.initialized),
            to.writer_epoch: manifest.writer_epoch,
            to.compactor_epoch: manifest.compactor_epoch,
            to.replay_after_wal_id: manifest.replay_after_wal_id,
            to.wal_id_last_seen: manifest.wal_id_last_seen,
            to.last_compacted_l0_sst_view_id: int(markers[0]),
            to.ssts: builder.vector(ssts),
            to.l0: int(l0[0]),
            to.compacted: int(compacted[0]),
            to.last_l0_clock_tick: manifest.last_l0_clock_tick,
            to.checkpoints: builder.vector(_checkpoints(builder, manifest.checkpoints)),
            to.last_l0_seq: manifest.last_l0_seq,
            to.recent_snapshot_min_seq: manifest.recent_snapshot_min_seq,
            to.sequence_tracker: int(tracker),
            to.segments: builder.vector(segments),
            to.segment_extractor_name: int(extractor),
        }
    )
    return builder.finish(root, PREFIX)


def _trees(builder: Builder, flat: FlatTrees, pool_ids: Refs) -> tuple[Refs, Refs]:
    """The vectors of L0 views and of sorted runs of each tree."""
    table = flat.views
    sst_ids = pool_ids[table.sst]
    # Most views have the id of their SST: then one table serves both, and the SST in the pool.
    ids = sst_ids.copy()
    others = np.flatnonzero(~table.id.equal(table.ssts.id.take(table.sst)))
    ids[others] = write_ids(builder, table.id.take(others))
    views = builder.tables(
        len(table),
        {
            layout.CompactedSsTableView.id: ids,
            layout.CompactedSsTableView.sst_id: sst_ids,
            # Where there is no range, -1 takes the last one: absent.
            layout.CompactedSsTableView.visible_range: np.append(write_ranges(builder, table.ranges), 0)[table.visible],
        },
    )
    l0 = builder.vectors(views[: flat.l0_total], flat.l0_offsets)
    runs = builder.tables(
        len(flat.run_ids),
        {
            layout.SortedRunV2.id: flat.run_ids,
            layout.SortedRunV2.ssts: builder.vectors(views[flat.l0_total :], flat.view_offsets),
        },
    )
    return l0, builder.vectors(runs, flat.run_offsets)


def _checkpoints(builder: Builder, checkpoints: tuple[Checkpoint, ...]) -> Refs:
    to = layout.Checkpoint
    of_writers = np.array([each.writer_epoch is not None for each in checkpoints], np.bool_)
    epochs = np.array([each.writer_epoch for each in checkpoints if each.writer_epoch is not None], np.uint64)
    metadata = np.zeros(len(checkpoints), np.int64)
    metadata[of_writers] = builder.tables(len(epochs), {layout.WriterCheckpoint.epoch: epochs})
    return builder.tables(
        len(checkpoints),
        {
            to.id: write_ids(builder, Ids.of(each.id for each in checkpoints)),
            to.manifest_id: np.array([each.manifest_id for each in checkpoints], np.uint64),
            to.checkpoint_expire_time_s: np.array([each.expire_time_s or 0 for each in checkpoints], np.uint64),
            to.checkpoint_create_time_s: np.array([each.create_time_s for each in checkpoints], np.uint64),
            to.metadata_type: of_writers * np.int64(layout.CheckpointMetadataType.WRITER_CHECKPOINT),
            to.metadata: metadata,
            to.name: builder.texts([each.name for each in checkpoints]),
        },
    )


def _external_dbs(builder: Builder, external_dbs: tuple[ExternalDb, ...], pool: Ids, pool_ids: Refs) -> Refs:
    to = layout.ExternalDb
    if not external_dbs:
        return np.empty(0, np.int64)
    ids = Ids.concat([each.sst_ids for each in external_dbs])
    known = pool.find(ids)
    refs = np.append(pool_ids, 0)[known]
    others = np.flatnonzero(known < 0)
    refs[others] = write_ids(builder, ids.take(others))
    return builder.tables(
        len(external_dbs),
        {
            to.path: builder.texts([each.path for each in external_dbs]),
            to.source_checkpoint_id: write_ids(builder, Ids.of(each.source_checkpoint_id for each in external_dbs)),
            to.final_checkpoint_id: write_optional_ids(builder, [each.final_checkpoint_id for each in external_dbs]),
            to.sst_ids: builder.vectors(refs, np.cumsum([0, *(len(each.sst_ids) for each in external_dbs)])),
        },
    )
