"""What can be done to the checkpoints of a manifest: each a function from a manifest to the next."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

from slate_engine.errors import InvalidError
from slate_engine.state.manifest import THIS_MANIFEST, Checkpoint, Manifest
from slate_engine.state.tombstone import check_alive


class CheckpointMissing(InvalidError):
    """No such checkpoint: it was deleted, or it expired and was collected."""

    def __init__(self, id: UUID) -> None:
        super().__init__(f"there is no checkpoint {id}; list the checkpoints to see which ones there are")
        self.id = id


class CheckpointExpired(InvalidError):
    """A checkpoint that may be collected at any moment cannot be the source of a new one."""

    def __init__(self, id: UUID) -> None:
        super().__init__(
            f"checkpoint {id} has expired; make the new one from the present state, or from another checkpoint"
        )
        self.id = id


class CheckpointDiffers(InvalidError):
    """The id of a new checkpoint is the id of another one."""

    def __init__(self, known: Checkpoint) -> None:
        called = f", called {known.name!r}" if known.name else ""
        super().__init__(
            f"checkpoint {known.id} is another one already{called}, which keeps manifest {known.manifest_id}; give the new "
            "one another id"
        )


class NotInitialized(InvalidError):
    """The database is a clone under construction."""

    def __init__(self, path: str | None = None) -> None:
        which = "the database" if path is None else f"database {path!r}"
        super().__init__(f"{which} is not initialized: finish the clone that makes it, or destroy it")


def check_usable(manifest: Manifest, path: str | None = None) -> None:
    """Raise unless this is a whole, living database: neither destroyed nor a clone under construction."""
    check_alive(manifest, path)
    if not manifest.initialized:
        raise NotInitialized(path)


def with_checkpoint(
    manifest: Manifest,
    *,
    id: UUID,
    now_ms: int,
    lifetime_ms: int | None = None,
    name: str | None = None,
    source: UUID | None = None,
) -> Manifest:
    """A new checkpoint of the state that this very change commits, or of what the checkpoint ``source`` keeps.

    One with this ``id`` may exist already, because the answer to the same request was lost: then nothing changes. Raises
    ``CheckpointDiffers`` if it cannot have come from the same request. Its lifetime does not tell: that may be changed."""
    known = manifest.checkpoint(id)
    if known is not None:
        kept = None if source is None else manifest.checkpoint(source)
        if (known.name or None) != (name or None) or (kept is not None and kept.manifest_id != known.manifest_id):
            raise CheckpointDiffers(known)
        return manifest
    check_usable(manifest)
    manifest_id = THIS_MANIFEST
    if source is not None:
        original = _found(manifest, source)
        if original.is_expired(now_ms / 1000):
            raise CheckpointExpired(source)
        manifest_id = original.manifest_id
    checkpoint = Checkpoint(id, manifest_id, _expiry(now_ms, lifetime_ms), now_ms // 1000, name)
    return replace(manifest, checkpoints=(*manifest.checkpoints, checkpoint))


def with_checkpoint_refreshed(manifest: Manifest, id: UUID, *, now_ms: int, lifetime_ms: int | None) -> Manifest:
    """The checkpoint lives for ``lifetime_ms`` from now on, or for ever."""
    refreshed = replace(_found(manifest, id), expire_time_s=_expiry(now_ms, lifetime_ms))
    return replace(manifest, checkpoints=tuple(refreshed if each.id == id else each for each in manifest.checkpoints))


def without_checkpoint(manifest: Manifest, id: UUID) -> Manifest:
    """Nothing changes if it is gone already."""
    if manifest.checkpoint(id) is None:
        return manifest
    return replace(manifest, checkpoints=tuple(each for each in manifest.checkpoints if each.id != id))


def without_expired_checkpoints(manifest: Manifest, *, now_ms: int) -> Manifest:
    alive = tuple(each for each in manifest.checkpoints if not each.is_expired(now_ms / 1000))
    return manifest if len(alive) == len(manifest.checkpoints) else replace(manifest, checkpoints=alive)


def _found(manifest: Manifest, id: UUID) -> Checkpoint:
    checkpoint = manifest.checkpoint(id)
    if checkpoint is None:
        raise CheckpointMissing(id)
    return checkpoint


def _expiry(now_ms: int, lifetime_ms: int | None) -> int | None:
    if lifetime_ms is None:
        return None
    expiry = (now_ms + lifetime_ms) // 1000
    if lifetime_ms < 0 or expiry >= 2**32:
        raise InvalidError(
            f"a checkpoint cannot live for {lifetime_ms} ms: its end must be a time between now and the year 2106; leave "
            "the lifetime out to keep it until it is deleted"
        )
    return expiry
