"""What the original says a manifest or a book of compactions holds, and what we say, in one shape."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import UUID

import slatedb.uniffi as u

from slate_engine.format.key_range import BoundType, KeyRange
from slate_engine.format.sst_meta import Codec, FilterFormat, SstType
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView

Plain = dict[str, Any]


def store_at(folder: Path) -> u.ObjectStore:
    builder = u.ObjectStoreBuilder(u.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(folder))
    return builder.build()


def admin(folder: Path, path: str) -> u.Admin:
    return u.AdminBuilder(path, store_at(folder)).build()


def wheels_manifest(theirs: u.VersionedManifest) -> Plain:
    return {
        "writer_epoch": theirs.writer_epoch,
        "compactor_epoch": theirs.compactor_epoch,
        "initialized": theirs.initialized,
        "next_wal_sst_id": theirs.next_wal_sst_id,
        "replay_after_wal_id": theirs.replay_after_wal_id,
        "last_l0_clock_tick": theirs.last_l0_clock_tick,
        "last_l0_seq": theirs.last_l0_seq,
        "recent_snapshot_min_seq": theirs.recent_snapshot_min_seq,
        "wal_object_store_uri": theirs.wal_object_store_uri,
        "last_compacted_l0_sst_id": theirs.last_compacted_l0_sst_id,
        "root": _wheels_tree(theirs),
        "segments": [(segment.prefix, _wheels_tree(segment)) for segment in theirs.segments],
        "checkpoints": [
            (UUID(c.id), c.manifest_id, c.expire_time_secs, c.create_time_secs, c.name) for c in theirs.checkpoints
        ],
        "external_dbs": [
            (
                db.path,
                UUID(db.source_checkpoint_id),
                db.final_checkpoint_id and UUID(db.final_checkpoint_id),
                [_ulid(sst.value) for sst in db.sst_ids],
            )
            for db in theirs.external_dbs
        ],
    }


def our_manifest(ours: Manifest) -> Plain:
    marker = ours.root.last_compacted_l0_sst
    return {
        "writer_epoch": ours.writer_epoch,
        "compactor_epoch": ours.compactor_epoch,
        "initialized": ours.initialized,
        "next_wal_sst_id": ours.next_wal_id,
        "replay_after_wal_id": ours.replay_after_wal_id,
        "last_l0_clock_tick": ours.last_l0_clock_tick,
        "last_l0_seq": ours.last_l0_seq,
        "recent_snapshot_min_seq": ours.recent_snapshot_min_seq,
        "wal_object_store_uri": ours.wal_object_store_uri,
        "last_compacted_l0_sst_id": None if marker is None else str(marker),
        "root": _our_tree(ours.root),
        "segments": [(segment.prefix, _our_tree(segment.tree)) for segment in ours.segments],
        "checkpoints": [(c.id, c.manifest_id, c.expire_time_s, c.create_time_s, c.name) for c in ours.checkpoints],
        "external_dbs": [
            (db.path, db.source_checkpoint_id, db.final_checkpoint_id, [str(id) for id in db.sst_ids])
            for db in ours.external_dbs
        ],
    }


def wheels_compactions(theirs: u.VersionedCompactions) -> Plain:
    return {
        "compactor_epoch": theirs.compactor_epoch,
        "jobs": [
            {
                "id": job.id,
                "spec": _wheels_spec(job.spec),
                "status": job.status.name,
                "active": job.active,
                "outputs": [_wheels_sst(sst) for sst in job.output_ssts],
            }
            for job in theirs.recent_compactions
        ],
    }


def our_compactions(ours: Compactions) -> Plain:
    return {"compactor_epoch": ours.compactor_epoch, "jobs": [_our_job(job) for job in ours.jobs]}


def _our_job(job: Compaction) -> Plain:
    # The wheel shows progress, which is in the context, as outputs of jobs that have not yet ended.
    return {
        "id": str(job.id),
        "spec": _our_spec(job),
        "status": CompactionStatus(job.status).name,
        "active": job.is_active,
        "outputs": [_our_sst(sst) for sst in job.outputs],
    }


def _our_spec(job: Compaction) -> tuple[Any, ...]:
    sources = [*map(str, job.spec.l0_views), *job.spec.sorted_runs]
    if isinstance(job.spec, TieredSpec):
        return "tiered", job.spec.segment, sources, job.spec.destination
    return "drain", job.spec.segment, sources


def _wheels_spec(spec: u.CompactionSpec) -> tuple[Any, ...]:
    sources = [source[0] for source in spec.sources]
    if spec.is_tiered():
        return "tiered", spec.segment, sources, spec.destination
    return "drain", spec.segment, sources


def _wheels_tree(tree: u.VersionedManifest | u.Segment) -> Plain:
    return {
        "marker": tree.last_compacted_l0_sst_view_id,
        "l0": [_wheels_view(view) for view in tree.l0],
        "runs": [
            (run.id, run.estimated_size_bytes, [_wheels_view(v) for v in run.sst_views]) for run in tree.compacted
        ],
    }


def _our_tree(tree: Tree) -> Plain:
    def run(of: SortedRun) -> tuple[int, int, list[Plain]]:
        return of.id, of.estimated_size, [_our_view(view) for view in of.views]

    return {
        "marker": None if tree.last_compacted_l0_view is None else str(tree.last_compacted_l0_view),
        "l0": [_our_view(view) for view in tree.l0],
        "runs": [run(each) for each in tree.runs],
    }


def _wheels_view(view: u.SsTableView) -> Plain:
    visible = view.visible_range
    return {
        "id": view.id,
        "sst": _wheels_sst(view.sst),
        "range": visible and (visible.start, visible.start_inclusive, visible.end, visible.end_inclusive),
        "size": view.estimated_size_bytes,
    }


def _our_view(view: SstView) -> Plain:
    return {
        "id": str(view.id),
        "sst": _our_sst(view.sst),
        "range": view.visible_range and _our_range(view.visible_range),
        "size": view.estimated_size,
    }


def _our_range(range: KeyRange) -> tuple[bytes | None, bool, bytes | None, bool]:
    return (
        range.start.key if range.start.bounded else None,
        range.start.type is BoundType.INCLUDED,
        range.end.key if range.end.bounded else None,
        range.end.type is BoundType.INCLUDED,
    )


def _wheels_sst(sst: u.SsTableHandle) -> Plain:
    info = sst.info
    return {
        "id": _ulid(sst.id.value),
        "size": sst.estimated_size_bytes,
        "first": info.first_entry,
        "last": info.last_entry,
        "places": (
            *(info.index_offset, info.index_len, info.filter_offset, info.filter_len),
            *(info.stats_offset, info.stats_len),
        ),
        "codec": info.compression_codec.name if info.compression_codec is not None else "NONE",
        "type": info.sst_type.name,
        "filter": info.filter_format.name,
    }


def _our_sst(sst: SstHandle) -> Plain:
    info = sst.info
    return {
        "id": str(sst.id),
        "size": sst.estimated_size,
        "first": info.first_entry,
        "last": info.last_entry,
        "places": (
            *(info.index_offset, info.index_len, info.filter_offset, info.filter_len),
            *(info.stats_offset, info.stats_len),
        ),
        "codec": Codec(info.codec).name,
        "type": SstType(info.sst_type).name,
        "filter": FilterFormat(info.filter_format).name,
    }


def _ulid(text: str) -> str:
    """The bare ULID of however the wheel writes the name of an SST."""
    return text.rsplit("(", 1)[-1].rstrip(")").strip('"')
