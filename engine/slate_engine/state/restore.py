"""Going back in place: the state of a checkpoint becomes the present one, by one change of the manifest.

Nothing is lost by it. The state before is kept by a checkpoint, and sequence numbers go on where they were, so that no
number ever stands for two commits. Sorted runs get new ids for the same reason: compactions name them by their ids, and a
run keeps its id when a compaction adds newer rows to it. A job that began before the restore would take the restored run
for the one that it has merged.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

from slate_engine.errors import Fenced
from slate_engine.format.ids import Ids
from slate_engine.state.checkpoints import CheckpointExpired, CheckpointMissing
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.tombstone import check_alive
from slate_engine.state.tree import Trees

NOTHING = Ids.of([])


@dataclass(frozen=True)
class Restoration:
    """What has been prepared: ``state`` is what the checkpoint keeps, with the rows of its log in SSTs; ``present_id`` the
    checkpoint that keeps the state of now; ``last_wal_id`` and ``last_seq`` are where that ends."""

    checkpoint_id: UUID
    state: Manifest
    present_id: UUID
    writer_epoch: int
    last_wal_id: int
    last_seq: int


def restored(
    manifest: Manifest, prepared: Restoration, *, now_ms: int, name: str, lifetime_ms: int | None = None
) -> Manifest:
    """The prepared state as the present one; the checkpoint of the state before gets ``name`` and ``lifetime_ms``."""
    check_alive(manifest)
    if manifest.writer_epoch != prepared.writer_epoch:
        raise Fenced(
            f"writer epoch {manifest.writer_epoch} took the database over while it was being restored, so nothing was; "
            "stop that process, and restore again"
        )
    source, present = (_found(manifest, id) for id in (prepared.checkpoint_id, prepared.present_id))
    if source.is_expired(now_ms / 1000):
        raise CheckpointExpired(source.id)
    expiry = None if lifetime_ms is None else (now_ms + lifetime_ms) // 1000
    kept = replace(present, name=name, expire_time_s=expiry)
    state = prepared.state
    return replace(
        manifest,
        trees=_with_new_run_ids(state.trees, manifest.trees),
        replay_after_wal_id=prepared.last_wal_id,
        wal_id_last_seen=prepared.last_wal_id,
        last_l0_seq=max(prepared.last_seq, state.last_l0_seq),
        last_l0_clock_tick=max(manifest.last_l0_clock_tick, state.last_l0_clock_tick),
        recent_snapshot_min_seq=min(manifest.recent_snapshot_min_seq, state.recent_snapshot_min_seq),
        checkpoints=tuple(kept if each.id == present.id else each for each in manifest.checkpoints),
        external_dbs=_external_dbs(manifest, state),
    )


def _with_new_run_ids(then: Trees, now: Trees) -> Trees:
    """The trees of then, with run ids that no run of then or of now has."""
    return then.with_run_ids_from(
        max((run.id for trees in (then, now) for tree in trees for run in tree.runs), default=-1) + 1
    )


def _external_dbs(manifest: Manifest, state: Manifest) -> tuple[ExternalDb, ...]:
    """The parents of then, and those of now without SSTs: they are detached once no checkpoint needs them."""
    then = {external.final_checkpoint_id for external in state.external_dbs}
    others = (external for external in manifest.external_dbs if external.final_checkpoint_id not in then)
    return (*state.external_dbs, *(replace(external, sst_ids=NOTHING) for external in others))


def _found(manifest: Manifest, id: UUID) -> Checkpoint:
    checkpoint = manifest.checkpoint(id)
    if checkpoint is None:
        raise CheckpointMissing(id)
    return checkpoint
