"""Going back to a checkpoint in place: the database itself is again what it was then, and what it was now is a checkpoint.

First everybody who writes is fenced, so that the present ends somewhere; it is kept by a checkpoint that covers the log to
that end. Then one commit of the manifest makes the old state the new one. Until that commit nothing has changed for readers,
and a restore that stops before it leaves but a checkpoint that expires.

WAL files are replayed by number, so the old state cannot take its part of the log and leave what came later: its rows go
into an SST instead, which the same commit brings in.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from slate_engine.admin.checkpoints import read_kept
from slate_engine.errors import Fenced, InvalidError
from slate_engine.format.columns import Rows
from slate_engine.format.filters import PrefixExtractor
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import KeyRange
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.lsm.compaction.commit import Claim
from slate_engine.lsm.compaction.guard import leave_name
from slate_engine.lsm.fencing import fence_log
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import replay_in_order, truncated
from slate_engine.lsm.segments import Segments
from slate_engine.lsm.table import cut
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.visible import sort_versions
from slate_engine.lsm.wal_tail import read_wal_file
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import check_usable, with_checkpoint, without_checkpoint
from slate_engine.state.commit import Versioned
from slate_engine.state.epochs import claim_compactor, claim_writer
from slate_engine.state.invariants import InvalidManifest
from slate_engine.state.manifest import Manifest
from slate_engine.state.restore import Restoration, restored
from slate_engine.state.ssts import SstHandle
from slate_engine.state.stores import ManifestStore
from slate_engine.state.tree import Tree
from slate_engine.state.views import SstView, Views

PREPARED = "restoring"
"""The name of the checkpoint that keeps the present, until the restore is done."""
PREPARED_MS = 3_600_000
"""How long the checkpoint of the present lives if the restore never comes to its end."""


@dataclass(frozen=True)
class RestoreOptions:
    """``keep_id`` and ``lifetime_ms`` are those of the checkpoint that keeps the state before; whoever gives the id may
    repeat the request. ``extractor`` is needed where the log has rows of segments that are in no SST yet."""

    keep_id: UUID | None = None
    lifetime_ms: int | None = None
    extractor: PrefixExtractor | None = None
    sst: SstOptions = field(default_factory=SstOptions)


@dataclass(frozen=True, slots=True)
class Restored:
    """A manifest in which the old state is the present one; the checkpoint that keeps what was there before, and the
    manifest that this keeps."""

    manifest_id: int
    kept: UUID
    kept_manifest_id: int


class _RestoringManifests(ManifestStore):
    """Level 0 of the past is older than that of the present. SSTs come back to it that a checkpoint has kept all the time,
    hence the rule that nothing old may come to level 0, for it may be collected already, does not hold here."""

    def _successor(self, before: Manifest, after: Manifest, id: int) -> Manifest:
        if after.writer_epoch < before.writer_epoch or after.compactor_epoch < before.compactor_epoch:
            raise InvalidManifest("an epoch must not go back")
        return after.numbered(id)


async def restore(files: DatabaseFiles, checkpoint: UUID, options: RestoreOptions | None = None) -> Restored:
    """Make the state of ``checkpoint`` the present one."""
    options = options or RestoreOptions()
    keep_id = options.keep_id or uuid4(files.runtime)
    name = f"before restoring {checkpoint}"
    newest = await files.manifests.read_latest()
    done = newest.value.checkpoint(keep_id)
    if done is not None and done.name not in (name, PREPARED):
        raise InvalidError(f"checkpoint {keep_id} is another one already; keep the present state under a new id")
    if done is not None and done.name == name:
        return Restored(newest.id, keep_id, done.manifest_id)
    check_usable(newest.value)
    past = await read_kept(files, newest.value, checkpoint)
    # Before anybody is fenced: a restore that cannot read the log, of then or of now, changes nothing.
    rows = await _log_rows(files, past)
    await files.check_log(newest.value)
    try:
        present = await _end_the_present(files, keep_id, name)
    except _RestoredMeanwhile:
        return await restore(files, checkpoint, replace(options, keep_id=keep_id))
    prepared = Restoration(
        checkpoint,
        await _with_log_in_ssts(files, past, rows, present.value, options),
        keep_id,
        present.value.writer_epoch,
        present.value.wal_id_last_seen,
        await _last_seq(files, present.value),
    )

    def change(old: Manifest) -> Manifest:
        return restored(old, prepared, now_ms=files.runtime.now_ms(), name=name, lifetime_ms=options.lifetime_ms)

    manifests = _RestoringManifests(files.manifests.objects, files.runtime)
    committed = await manifests.update(change)
    kept = committed.value.checkpoint(keep_id)
    assert kept is not None
    return Restored(committed.id, keep_id, kept.manifest_id)


class _RestoredMeanwhile(Exception):
    """Another process has ended the same restore. To do it once more would keep the restored state instead of the one
    before, and undo what was written since."""


async def _end_the_present(files: DatabaseFiles, keep_id: UUID, name: str) -> Versioned[Manifest]:
    """Fence all writers and compactors, and keep what they have written to the end of the log. ``name`` is that of a
    finished restore's checkpoint."""

    def keeping(old: Manifest) -> Manifest:
        # One that an earlier attempt left keeps what was the present then: a writer may have written since.
        others = without_checkpoint(old, keep_id)
        return with_checkpoint(
            others, id=keep_id, now_ms=files.runtime.now_ms(), lifetime_ms=PREPARED_MS, name=PREPARED
        )

    def claim(old: Manifest) -> Manifest:
        check_usable(old)
        done = old.checkpoint(keep_id)
        if done is not None and done.name == name:
            # No other process ends it after this commit, which takes the epoch that the other would need.
            raise _RestoredMeanwhile
        # With the epoch, in one commit: a restore that stops here is known again by it, and so is one whose epoch is over.
        return keeping(claim_compactor(claim_writer(old)))

    claimed = (await files.manifests.update(claim)).value
    epoch = claimed.writer_epoch
    await leave_name(files, Claim(claimed.compactor_epoch))
    last_wal_id = await fence_log(Tenure(files, epoch))

    def keep(old: Manifest) -> Manifest:
        if old.writer_epoch != epoch:
            raise Fenced(
                f"writer epoch {old.writer_epoch} took the database over before it was restored; stop it first"
            )
        return keeping(replace(old, wal_id_last_seen=max(old.wal_id_last_seen, last_wal_id)))

    return await files.manifests.update(keep)


async def _last_seq(files: DatabaseFiles, present: Manifest) -> int:
    """The largest sequence number that was ever given out: it stands in the last file of the log that has rows."""
    for id in range(present.wal_id_last_seen, present.replay_after_wal_id, -1):
        rows = await read_wal_file(files, id)
        if rows is None:
            raise await truncated(files.log_store, files.paths, id, present.needed_wal_ids)
        if len(rows):
            return max(present.last_l0_seq, int(rows.seq[-1]))
    return present.last_l0_seq


async def _with_log_in_ssts(
    files: DatabaseFiles, past: Manifest, rows: Rows, present: Manifest, options: RestoreOptions
) -> Manifest:
    if not len(rows):
        return past
    parts = await files.runtime.run(_split, rows, past, options.extractor)
    trees = past.trees
    for prefix, part in parts:
        built = await files.runtime.run(build_sst, part, options.sst)
        # Not older than what the present shows: then no collector takes it for an orphan before it is committed.
        id = Ulid.new(files.runtime, max(present.trees.newest_l0_ms or 0, past.trees.newest_l0_ms or 0))
        await files.store.put(files.paths.compacted(id), built.tobytes())
        view = SstView(id, SstHandle(id, built.info, built.version))
        trees = trees.with_tree(prefix, (trees.tree(prefix) or Tree()).with_l0(Views.of([view])))
    return replace(
        past,
        trees=trees,
        last_l0_seq=max(past.last_l0_seq, int(rows.seq.max())),
        last_l0_clock_tick=max(past.last_l0_clock_tick, int(rows.create_ts.max())),
    )


async def _log_rows(files: DatabaseFiles, past: Manifest) -> Rows:
    """The rows of the state's own part of the log that are in no SST, in commit order."""
    return await replay_in_order(files.log_store, files.paths, past.needed_wal_ids, past.last_l0_seq, files.runtime)


def _split(in_commit_order: Rows, past: Manifest, extractor: PrefixExtractor | None) -> list[tuple[bytes, Rows]]:
    rows = sort_versions(in_commit_order)
    if past.segment_extractor_name is None:
        return [(b"", rows)]
    prefixes = [segment.prefix for segment in past.segments]
    if extractor is not None:
        segments = Segments(extractor, prefixes)
        segments.add(key for key, *_ in rows.tuples())
        return segments.split(rows)
    # Segments do not contain one another, so a key that begins like one belongs to it.
    parts = [(prefix, part) for prefix in prefixes if len(part := cut(rows, KeyRange.of_prefix(prefix)))]
    if sum(len(part) for _, part in parts) < len(rows):
        raise InvalidError(
            "the log of the checkpoint has rows of new segments; give the segment extractor, "
            f"{past.segment_extractor_name!r}, to restore it"
        )
    return parts
