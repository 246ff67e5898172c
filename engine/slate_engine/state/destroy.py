"""Destroying a database, softly and for good, and taking the first of it back: each a function from a manifest to the next.

Both begin by taking the next epochs, so that no writer and no compactor goes on. Because taking back and deleting for good
are changes of one manifest too, only one of them can happen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slate_engine.errors import InvalidError
from slate_engine.state.checkpoints import NotInitialized
from slate_engine.state.epochs import claim_compactor, claim_writer
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.tombstone import Destroyed, Tombstone, show_second


class InvalidDeletion(InvalidError):
    """Somebody still needs the database: its checkpoints are named."""

    def __init__(self, checkpoints: Sequence[Checkpoint]) -> None:
        named = "; ".join(_describe(checkpoint) for checkpoint in checkpoints[:20])
        more = f"; and {len(checkpoints) - 20} more" if len(checkpoints) > 20 else ""
        super().__init__(
            f"the database is not deleted, because checkpoints need it: {named}{more}. Delete them, or wait until they "
            "expire; that of a clone goes with the clone"
        )
        self.checkpoints = tuple(checkpoints)


class NotDestroyed(InvalidError):
    """There is nothing to take back."""

    def __init__(self) -> None:
        super().__init__("the database is not destroyed, so there is nothing to undelete")


def softly_destroyed(manifest: Manifest, *, now_s: int) -> Manifest:
    """Nobody may use the database from now on, but all of it stays. Only checkpoints that its writers made for themselves
    go, for they are fenced. Nothing changes if it is destroyed already."""
    if Tombstone.of(manifest) is not None:
        return manifest
    if not manifest.initialized:
        # There is nothing in it that one could want back.
        raise NotInitialized
    return _marked(manifest, Tombstone(now_s, manifest.segment_extractor_name))


def undeleted(manifest: Manifest) -> Manifest:
    """As before it was destroyed, but for the epochs: what was fenced stays fenced. Nothing changes if it lives."""
    tombstone = Tombstone.of(manifest)
    if tombstone is None:
        if manifest.initialized:
            return manifest
        raise NotDestroyed
    if tombstone.deleting:
        raise Destroyed(tombstone)
    return replace(manifest, initialized=True, segment_extractor_name=tombstone.extractor_name)


def claimed_for_deletion(manifest: Manifest, *, now_ms: int) -> Manifest:
    """Its objects are going to be deleted, and it cannot be brought back any more. Refused while checkpoints need it; those
    that have expired go at once, lest somebody prolongs one."""
    active = active_checkpoints(manifest, now_ms=now_ms)
    if active:
        raise InvalidDeletion(active)
    tombstone = Tombstone.of(manifest)
    if tombstone is not None and tombstone.deleting:
        return manifest
    if tombstone is None:
        manifest = _marked(manifest, Tombstone(now_ms // 1000, manifest.segment_extractor_name, deleting=True))
    else:
        manifest = replace(manifest, segment_extractor_name=replace(tombstone, deleting=True).text)
    return replace(manifest, checkpoints=())


def active_checkpoints(manifest: Manifest, *, now_ms: int) -> list[Checkpoint]:
    return [checkpoint for checkpoint in manifest.checkpoints if not checkpoint.is_expired(now_ms / 1000)]


def _marked(manifest: Manifest, tombstone: Tombstone) -> Manifest:
    fenced = claim_compactor(claim_writer(manifest))
    others = tuple(each for each in manifest.checkpoints if each.writer_epoch is None)
    return replace(fenced, initialized=False, segment_extractor_name=tombstone.text, checkpoints=others)


def _describe(checkpoint: Checkpoint) -> str:
    name = f" ({checkpoint.name})" if checkpoint.name else ""
    until = "never expires" if checkpoint.expire_time_s is None else f"until {show_second(checkpoint.expire_time_s)}"
    return f"{checkpoint.id}{name}, of manifest {checkpoint.manifest_id}, {until}"
