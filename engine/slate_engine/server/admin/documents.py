"""What the admin API says, as JSON. Times are seconds of the unix epoch, sizes are bytes."""

from __future__ import annotations

from typing import Any

from slate_engine.gc.explanation import Explanation
from slate_engine.lsm.compaction.specs import describe, input_bytes
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import Compaction
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tombstone import Tombstone, life_of
from slate_engine.store.cost import GIB, S3_STANDARD


def checkpoint_document(checkpoint: Checkpoint) -> dict[str, Any]:
    return {
        "id": str(checkpoint.id),
        "name": checkpoint.name,
        "manifest_id": checkpoint.manifest_id,
        "create_time_s": checkpoint.create_time_s,
        "expire_time_s": checkpoint.expire_time_s,
    }


async def status_document(files: DatabaseFiles) -> dict[str, Any]:
    newest = await files.manifests.read_latest()
    manifest = newest.value
    tombstone = Tombstone.of(manifest)
    return {
        "path": files.path,
        "state": life_of(manifest),
        "destroyed_at_s": None if tombstone is None else tombstone.destroyed_at_s,
        "manifest_id": newest.id,
        "writer_epoch": manifest.writer_epoch,
        "compactor_epoch": manifest.compactor_epoch,
        "last_l0_seq": manifest.last_l0_seq,
        "l0_ssts": sum(len(tree.l0) for tree in manifest.trees),
        "sorted_runs": sum(len(tree.runs) for tree in manifest.trees),
        "size_bytes": manifest.estimated_size,
        "dollars_a_month": manifest.estimated_size / GIB * S3_STANDARD.storage,
        "prices": S3_STANDARD.name,
        "log_trouble": await files.log_trouble(manifest) if life_of(manifest) == "alive" else None,
        "checkpoints": [checkpoint_document(each) for each in manifest.checkpoints],
        "parents": [
            {
                "path": parent.path,
                "ssts": len(parent.sst_ids),
                "size_bytes": int(manifest.ssts.sizes[manifest.owners == place].sum()),
                "final_checkpoint_id": str(parent.final_checkpoint_id) if parent.final_checkpoint_id else None,
            }
            for place, parent in enumerate(manifest.external_dbs)
        ],
    }


async def compactions_document(files: DatabaseFiles) -> dict[str, Any]:
    """The compactor's book. ``waiting_bytes`` is what no worker has claimed yet."""
    newest = await CompactionsStore.open(files.store, files.paths.root, files.runtime).latest()
    if newest is None:
        return {"compactions": [], "waiting_bytes": 0}
    # Read after the book, so it shows what the jobs in there were planned on.
    manifest = (await files.manifests.read_latest()).value
    waiting = [job for job in newest.value.jobs if job.is_active and job.worker is None]
    return {
        "compactions": [_compaction_document(job, manifest) for job in newest.value.jobs],
        "waiting_bytes": sum(input_bytes(job.spec, manifest) for job in waiting),
    }


def _compaction_document(job: Compaction, manifest: Manifest) -> dict[str, Any]:
    return {
        "id": str(job.id),
        "state": job.status.name.lower(),
        # What an ended job has read is not in the manifest any more, or under its number is what became of it.
        "input_bytes": input_bytes(job.spec, manifest) if job.is_active else 0,
        "submitted_at_s": job.id.ms // 1000,
        "worker": None if job.worker is None else job.worker.id,
        "heartbeat_at_s": None if job.worker is None else job.worker.last_heartbeat_ms // 1000,
        "description": describe(job.spec),
    }


def explanation_document(found: Explanation, limit: int, verdict: str | None) -> dict[str, Any]:
    objects = [each for each in found.objects if verdict is None or each.verdict.value == verdict]
    return {
        "path": found.path,
        "size_bytes": found.size(),
        "holdings": [
            {
                "holder": holding.holder.describe(found.now_ms),
                "objects": holding.objects,
                "size_bytes": holding.size,
                "alone_bytes": holding.alone,
                "dollars_a_month": holding.dollars_a_month(S3_STANDARD),
            }
            for holding in found.holdings
        ],
        "objects": [
            {
                "name": each.name,
                "kind": each.kind,
                "size_bytes": each.size,
                "age_s": each.age_s,
                "verdict": each.verdict.value,
                "holders": [holder.describe(found.now_ms) for holder in each.holders],
                "more_holders": each.more_holders,
                "why": each.why,
            }
            for each in objects[:limit]
        ],
        "more_objects": max(len(objects) - limit, 0),
    }
