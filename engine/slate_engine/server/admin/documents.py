"""What the admin API says, as JSON. Times are seconds of the unix epoch, sizes are bytes."""

from __future__ import annotations

from typing import Any

from slate_engine.gc.explanation import Explanation
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.manifest import Checkpoint
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
        "checkpoints": [checkpoint_document(each) for each in manifest.checkpoints],
        "parents": [
            {
                "path": parent.path,
                "ssts": len(parent.sst_ids),
                "final_checkpoint_id": str(parent.final_checkpoint_id) if parent.final_checkpoint_id else None,
            }
            for parent in manifest.external_dbs
        ],
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
