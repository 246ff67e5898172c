"""The state of a database, and its SSTs, as facts that can be printed: what ``--output json`` promises."""

from __future__ import annotations

from itertools import islice
from typing import Any

from slate_engine.cli.checkpoints import checkpoint_facts
from slate_engine.cli.text import show_bytes, show_instant
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import BoundType, KeyRange
from slate_engine.format.sst import open_sst
from slate_engine.format.wal import read_wal
from slate_engine.state.compactions import Compaction, Compactions, TieredSpec
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.tombstone import Tombstone, life_of
from slate_engine.state.tree import Tree
from slate_engine.state.views import SstView
from slate_engine.store.protocol import Buffer


def manifest_facts(id: int, manifest: Manifest) -> dict[str, Any]:
    tombstone = Tombstone.of(manifest)
    extractor = manifest.segment_extractor_name if tombstone is None else tombstone.extractor_name
    return {
        "id": id,
        "state": life_of(manifest),
        "destroyed_at": None if tombstone is None else show_instant(tombstone.destroyed_at_s),
        "writer_epoch": manifest.writer_epoch,
        "compactor_epoch": manifest.compactor_epoch,
        "replay_after_wal_id": manifest.replay_after_wal_id,
        "wal_id_last_seen": manifest.wal_id_last_seen,
        "last_l0_seq": manifest.last_l0_seq,
        "recent_snapshot_min_seq": manifest.recent_snapshot_min_seq,
        "segment_extractor": extractor,
        "trees": [
            {"segment": segment, **tree_facts(tree)}
            for segment, tree in named_trees(manifest)
            if segment is None or not tree.is_empty
        ],
        "checkpoints": [checkpoint_facts(each) for each in manifest.checkpoints],
        "parents": [_parent_facts(each) for each in manifest.external_dbs],
    }


def named_trees(manifest: Manifest) -> list[tuple[str | None, Tree]]:
    """The root tree, which has no name, and those of the segments."""
    segments = [(show_bytes(segment.prefix), segment.tree) for segment in manifest.segments]
    return [(None, manifest.root), *segments]


def tree_facts(tree: Tree) -> dict[str, Any]:
    return {
        "l0": [_view_facts(view) for view in tree.l0],
        "sorted_runs": [
            {"id": run.id, "size_bytes": run.estimated_size, "ssts": [_view_facts(view) for view in run.views]}
            for run in tree.runs
        ],
        "last_compacted_l0_view": _text(tree.last_compacted_l0_view),
    }


def _view_facts(view: SstView) -> dict[str, Any]:
    info = view.sst.info
    return {
        "id": str(view.id),
        "sst": str(view.sst.id),
        "size_bytes": view.estimated_size,
        "first_key": show_bytes(info.first_entry) if info.first_entry is not None else None,
        "last_key": show_bytes(info.last_entry) if info.last_entry is not None else None,
        "visible": None if view.visible_range is None else range_facts(view.visible_range),
    }


def range_facts(keys: KeyRange) -> dict[str, Any]:
    """A range of keys: its ends, null where it has none."""
    return {
        "start": show_bytes(keys.start.key) if keys.start.bounded else None,
        "start_included": keys.start.type is BoundType.INCLUDED,
        "end": show_bytes(keys.end.key) if keys.end.bounded else None,
        "end_included": keys.end.type is BoundType.INCLUDED,
    }


def _parent_facts(parent: ExternalDb) -> dict[str, Any]:
    return {
        "path": parent.path,
        "source_checkpoint_id": str(parent.source_checkpoint_id),
        "final_checkpoint_id": _text(parent.final_checkpoint_id),
        "ssts": [str(id) for id in parent.sst_ids],
    }


def compactions_facts(id: int, book: Compactions) -> dict[str, Any]:
    return {
        "id": id,
        "compactor_epoch": book.compactor_epoch,
        "compactions": [_compaction_facts(job) for job in book.jobs],
    }


def _compaction_facts(job: Compaction) -> dict[str, Any]:
    spec = job.spec
    outputs = [sst for part in job.all_outputs() for sst in part]
    return {
        "id": str(job.id),
        "status": job.status.name.lower(),
        "kind": "merge" if isinstance(spec, TieredSpec) else "drain",
        "segment": show_bytes(spec.segment) if spec.segment else None,
        "l0_views": [str(view) for view in spec.l0_views],
        "sorted_runs": list(spec.sorted_runs),
        "destination": spec.destination if isinstance(spec, TieredSpec) else None,
        "worker": None if job.worker is None else job.worker.id,
        "heartbeat_at": None if job.worker is None else show_instant(job.worker.last_heartbeat_ms / 1000),
        "output_ssts": [str(sst.id) for sst in outputs],
        "output_bytes": sum(sst.estimated_size for sst in outputs),
    }


def sst_facts(data: Buffer, key: str, rows: int) -> dict[str, Any]:
    """What a compacted SST holds, with its first rows."""
    sst = open_sst(data, object=key)
    info, stats = sst.info, sst.stats()
    counts = ("num_puts", "num_deletes", "num_merges", "raw_key_size", "raw_val_size")
    return {
        "object": key,
        "size_bytes": len(data),
        "format_version": sst.version,
        "codec": info.codec.name.lower(),
        "first_key": show_bytes(info.first_entry) if info.first_entry is not None else None,
        "last_key": show_bytes(info.last_entry) if info.last_entry is not None else None,
        "blocks": len(sst.index()),
        "filters": [{"name": each.name, "size_bytes": len(each.data)} for each in sst.filters()],
        "stats": None if stats is None else {name: getattr(stats, name) for name in counts},
        "rows": version_facts(sst.rows(), rows),
    }


def wal_facts(data: Buffer, key: str, rows: int) -> dict[str, Any]:
    """What a file of the log holds. An empty one is a fence: it keeps a former writer out."""
    found = read_wal(data, object=key)
    return {
        "object": key,
        "size_bytes": len(data),
        "fence": not len(data),
        "row_count": len(found),
        "rows": version_facts(found, rows),
    }


def version_facts(rows: Rows, limit: int) -> list[dict[str, Any]]:
    """The first row versions of a batch; all of them if ``limit`` is 0."""
    return [
        {
            "key": show_bytes(key),
            "kind": "delete" if flags & TOMBSTONE else "merge" if flags & MERGE else "put",
            "value": None if flags & TOMBSTONE else show_bytes(value),
            "seq": seq,
            "create_ts": created if flags & HAS_CREATE else None,
            "expire_ts": expires if flags & HAS_EXPIRE else None,
        }
        for key, value, seq, flags, created, expires in islice(rows.tuples(), limit or None)
    ]


def _text(id: Ulid | object | None) -> str | None:
    return None if id is None else str(id)
