"""Destroying a database, softly and for good, and taking the first of it back: each a function from a manifest to the next.

Both begin by taking the next epochs, so that no writer and no compactor goes on. Because taking back and deleting for good
are changes of one manifest too, only one of them can happen. But a deletion takes the manifests with it, and one that was on
its way meanwhile would stand there alone and look alive. So whoever takes a database back says so first, in a manifest that
is still destroyed, and for :data:`RETURN_S` from then on nobody begins to delete it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from slate_engine.errors import InvalidError, UnavailableError
from slate_engine.state.checkpoints import NotInitialized
from slate_engine.state.epochs import claim_compactor, claim_writer
from slate_engine.state.manifest import Checkpoint, Manifest
from slate_engine.state.tombstone import Destroyed, Tombstone, show_second
from slate_engine.store.presence import SHORTEST_DELETION

RETURN_S = 60
"""Seconds that somebody has to bring a database back, from when he said that he would."""

LINGER = SHORTEST_DELETION
"""Seconds between closing a database (the mark in its manifest, the fence behind its log) and deleting what closes it.

Both sides keep to it. A writer acknowledges a WAL file only within this time after it *began* a look at the manifest that
found no mark. The process that deletes the database leaves the mark and the fence in place for this time. So a writer that
acknowledges wrote while the mark or the fence could still stop it: the mark came after the look began, the last deletion at
least LINGER after the mark. Only durations count, so the clocks of the two need not agree.

A writer polls the manifest every second, so while it polls it need not look again before it acknowledges."""


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


class BeingUndeleted(InvalidError):
    """Somebody is bringing the database back. If he does not come to the end, it can be deleted a minute later."""

    def __init__(self, tombstone: Tombstone) -> None:
        since = show_second(tombstone.returning_s or 0)
        super().__init__(
            f"the database is not deleted, because somebody began to undelete it at {since}; look whether it is alive, and "
            f"try again {RETURN_S} s after that if it is not"
        )


class BroughtBack(InvalidError):
    """The database was to be deleted for a destruction that somebody has taken back."""

    def __init__(self, destroyed_at_s: int) -> None:
        super().__init__(
            f"the database is not deleted, because what was destroyed at {show_second(destroyed_at_s)} was brought back "
            "since then; look at it again"
        )


class NotAnnounced(UnavailableError):
    """Whoever brings a database back has to say so first. What was said is too old by now, or was withdrawn by another."""


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


def announced(manifest: Manifest, *, now_s: int) -> Manifest:
    """Somebody is about to bring the database back; for everybody else it is still destroyed. Nothing changes if it lives,
    or if another said so a moment ago: then it is his to do."""
    tombstone = _revocable(manifest)
    if tombstone is None or _is_returning(tombstone, now_s, RETURN_S // 2):
        return manifest
    return replace(manifest, segment_extractor_name=replace(tombstone, returning_s=now_s).text)


def withdrawn(manifest: Manifest) -> Manifest:
    """Destroyed as before: nobody brings it back after all."""
    tombstone = Tombstone.of(manifest)
    if tombstone is None or tombstone.deleting or tombstone.returning_s is None:
        return manifest
    return replace(manifest, segment_extractor_name=replace(tombstone, returning_s=None).text)


def undeleted(manifest: Manifest, *, now_s: int, since_s: int) -> Manifest:
    """As before it was destroyed, but for the epochs: what was fenced stays fenced. Nothing changes if it lives. ``since_s``
    is when the one who does it announced that: another's announcement does not cover him."""
    tombstone = _revocable(manifest)
    if tombstone is None:
        return manifest
    if tombstone.returning_s != since_s or not _is_returning(tombstone, now_s, RETURN_S):
        raise NotAnnounced(
            "the database is still destroyed: bringing it back took too long, or somebody gave it up; try again"
        )
    return replace(manifest, initialized=True, segment_extractor_name=tombstone.extractor_name)


def _revocable(manifest: Manifest) -> Tombstone | None:
    """The mark that may be taken back; None if the database lives."""
    tombstone = Tombstone.of(manifest)
    if tombstone is None and not manifest.initialized:
        raise NotDestroyed
    if tombstone is not None and tombstone.deleting:
        raise Destroyed(tombstone)
    return tombstone


def _is_returning(tombstone: Tombstone, now_s: int, within_s: int) -> bool:
    """Clocks disagree, in both directions."""
    return tombstone.returning_s is not None and abs(now_s - tombstone.returning_s) < within_s


def claimed_for_deletion(manifest: Manifest, *, now_ms: int, destroyed_at_s: int | None = None) -> Manifest:
    """Its objects are going to be deleted, and it cannot be brought back any more. Refused while checkpoints need it, and
    while somebody brings it back. Checkpoints that have expired go at once, lest somebody prolongs one.

    Whoever decided this by a destruction that he saw gives its second: what was brought back since is not deleted."""
    active = active_checkpoints(manifest, now_ms=now_ms)
    if active:
        raise InvalidDeletion(active)
    tombstone = Tombstone.of(manifest)
    if tombstone is not None and tombstone.deleting:
        return manifest
    if tombstone is not None and _is_returning(tombstone, now_ms // 1000, RETURN_S):
        raise BeingUndeleted(tombstone)
    if destroyed_at_s is not None and (tombstone is None or tombstone.destroyed_at_s != destroyed_at_s):
        raise BroughtBack(destroyed_at_s)
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
