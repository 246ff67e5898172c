"""Manifests and compactions as the tables on the wire, spelled out by hand for the reference reader and writer."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import Bound, KeyRange
from slate_engine.state.compactions import Compaction, Compactions, TieredSpec
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView

Value = dict[str, Any]


def present(**fields: Any) -> Value:
    """Without what is absent, or a scalar's default."""
    return {name: value for name, value in fields.items() if value is not None and value is not False and value != 0}


def id_table(id: Ulid | UUID) -> Value:
    number = id.value if isinstance(id, Ulid) else id.int
    return present(high=number >> 64, low=number & (2**64 - 1))


def _optional(id: Ulid | UUID | None) -> Value | None:
    return None if id is None else id_table(id)


def range_table(range: KeyRange) -> Value:
    return {"start_bound": _bound(range.start), "end_bound": _bound(range.end)}


def _bound(bound: Bound) -> Value:
    return {"bound_type": int(bound.type)} | ({"key": bound.key} if bound.bounded else {})


def info_table(sst: SstHandle) -> Value:
    info = sst.info
    return present(
        first_entry=info.first_entry,
        last_entry=info.last_entry,
        index_offset=info.index_offset,
        index_len=info.index_len,
        filter_offset=info.filter_offset,
        filter_len=info.filter_len,
        codec=int(info.codec),
        sst_type=int(info.sst_type),
        stats_offset=info.stats_offset,
        stats_len=info.stats_len,
        filter_format=int(info.filter_format),
    )


def sst_table(sst: SstHandle, visible: KeyRange | None = None) -> Value:
    """As in version 1 and in compactions."""
    table = {"id": id_table(sst.id), "info": info_table(sst), "format_version": sst.format_version}
    return table if visible is None else table | {"visible_range": range_table(visible)}


def _view(view: SstView) -> Value:
    visible = view.visible_range
    return present(id=id_table(view.id), sst_id=id_table(view.sst.id), visible_range=visible and range_table(visible))


def _run(run: SortedRun) -> Value:
    return present(id=run.id) | {"ssts": [_view(view) for view in run.views]}


def _tree(tree: Tree) -> Value:
    return present(last_compacted_l0_sst_view_id=_optional(tree.last_compacted_l0_view)) | {
        "l0": [_view(view) for view in tree.l0],
        "compacted": [_run(run) for run in tree.runs],
    }


def _checkpoint(checkpoint: Checkpoint) -> Value:
    return present(
        id=id_table(checkpoint.id),
        manifest_id=checkpoint.manifest_id,
        checkpoint_expire_time_s=checkpoint.expire_time_s,
        checkpoint_create_time_s=checkpoint.create_time_s,
        metadata_type=int(checkpoint.writer_epoch is not None),
        metadata=None if checkpoint.writer_epoch is None else present(epoch=checkpoint.writer_epoch),
        name=checkpoint.name,
    )


def _external_db(external: ExternalDb) -> Value:
    return present(
        path=external.path,
        source_checkpoint_id=id_table(external.source_checkpoint_id),
        final_checkpoint_id=_optional(external.final_checkpoint_id),
        sst_ids=[id_table(id) for id in external.sst_ids],
    )


def _common(manifest: Manifest) -> Value:
    return present(
        external_dbs=[_external_db(each) for each in manifest.external_dbs] or None,
        initialized=manifest.initialized,
        writer_epoch=manifest.writer_epoch,
        compactor_epoch=manifest.compactor_epoch,
        replay_after_wal_id=manifest.replay_after_wal_id,
        wal_id_last_seen=manifest.wal_id_last_seen,
        last_l0_clock_tick=manifest.last_l0_clock_tick,
        checkpoints=[_checkpoint(each) for each in manifest.checkpoints],
        last_l0_seq=manifest.last_l0_seq,
        recent_snapshot_min_seq=manifest.recent_snapshot_min_seq,
        sequence_tracker=manifest.sequence_tracker.encode(),
    )


def manifest_v2(manifest: Manifest) -> Value:
    return (
        _common(manifest)
        | _tree(manifest.root)
        | present(segment_extractor_name=manifest.segment_extractor_name)
        | {
            "ssts": [
                {"id": id_table(sst.id), "info": info_table(sst), "format_version": sst.format_version}
                for sst in manifest.ssts
            ],
            "segments": [{"prefix": segment.prefix} | _tree(segment.tree) for segment in manifest.segments],
        }
    )


def manifest_v1(manifest: Manifest) -> Value:
    """View ids and segments have no place in it."""
    root = manifest.root
    return (
        _common(manifest)
        | present(
            l0_last_compacted=_optional(root.last_compacted_l0_view),
            wal_object_store_uri=manifest.wal_object_store_uri,
        )
        | {
            "l0": [sst_table(view.sst, view.visible_range) for view in root.l0],
            "compacted": [
                present(id=run.id) | {"ssts": [sst_table(view.sst, view.visible_range) for view in run.views]}
                for run in root.runs
            ],
        }
    )


def compactions(book: Compactions) -> Value:
    return present(compactor_epoch=book.compactor_epoch) | {"recent_compactions": [_job(job) for job in book.jobs]}


def _job(job: Compaction) -> Value:
    spec = job.spec
    sources = present(
        l0_view_ids=[id_table(id) for id in spec.l0_views] or None,
        sorted_runs=list(spec.sorted_runs) or None,
        segment=spec.segment,
    )
    if isinstance(spec, TieredSpec):
        sources |= present(destination=spec.destination)
    context = job.context and present(
        retention_min_seq=job.context.retention_min_seq,
        subcompactions=[
            present(
                range=range_table(part.range),
                output_ssts=[sst_table(sst) for sst in part.outputs] or None,
                status=int(part.status),
            )
            for part in job.context.subcompactions
        ]
        or None,
    )
    return present(
        id=id_table(job.id),
        spec_type=1 if isinstance(spec, TieredSpec) else 2,
        spec=sources,
        status=int(job.status),
        output_ssts=[sst_table(sst) for sst in job.outputs] or None,
        worker=job.worker and present(worker_id=job.worker.id, last_heartbeat_ms=job.worker.last_heartbeat_ms),
        ctx_type=int(context is not None),
        ctx=context,
    )
