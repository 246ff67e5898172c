"""The checkpoints by which a reader keeps what it reads from garbage collection (RFC-0004, Readers).

A :class:`Lease` is in use as long as anybody refers to it: the reader for its present state, and every read that began in
an earlier one. Leases that are in use are renewed before half of their time is over; the others are deleted.

When a lease ends is written by the clock of the reader, and read by that of the collector. A reader whose clock is behind
counts from the newest time that it finds in the manifest, which others wrote, and every lease lasts ``SKEW_MS`` longer than
was asked for. So clocks may differ by as much as that, and by more where the database is written to; a reader that is
further behind than both has to be given longer leases.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from slate_engine.runtime import Runtime, uuid4
from slate_engine.state.checkpoints import with_checkpoint, with_checkpoint_refreshed, without_checkpoint
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import ManifestStore

log = logging.getLogger(__name__)

SKEW_MS = 60_000
"""What a lease lasts longer than was asked for. A reader that is gone without a word keeps garbage for so much longer."""

MOST_AHEAD_MS = 24 * 3600_000
"""Times in the manifest that are further ahead than this are not believed: a lease would outlive its reader by years."""


@dataclass(frozen=True, eq=False)
class Lease:
    """A checkpoint of ours. Hold on to it while reading what it keeps."""

    id: UUID


class Leases:
    """All that one reader has in the manifest."""

    def __init__(self, manifests: ManifestStore, runtime: Runtime, lifetime: float) -> None:
        self._manifests = manifests
        self._runtime = runtime
        self._lifetime = lifetime
        self._renew_at: dict[UUID, float] = {}
        self._unused: set[UUID] = set()

    async def establish(self, wal_id_last_seen: int) -> tuple[Lease, Versioned[Manifest]]:
        """A checkpoint of the newest state, with the log up to at least ``wal_id_last_seen``; and the manifest it keeps. The
        others are tended in the same change: where every look finds something new, there is no other occasion."""
        lease = Lease(uuid4(self._runtime))

        def change(old: Manifest) -> Manifest:
            now_ms = self._now_ms(old)
            new = replace(old, wal_id_last_seen=max(old.wal_id_last_seen, wal_id_last_seen))
            new = self._tended(new, unused, due, now_ms)
            return with_checkpoint(new, id=lease.id, now_ms=now_ms, lifetime_ms=self._whole_seconds_ms())

        unused, due = self._to_tend()
        half_time = self._half_time()
        committed = await self._manifests.update(change)
        for id in unused:
            self._forget(id)
        self._renew_at.update(dict.fromkeys((*due, lease.id), half_time))
        weakref.finalize(lease, self._unused.add, lease.id)
        return lease, committed

    def is_lost(self, lease: Lease | None, newest: Manifest) -> bool:
        """Whether somebody has deleted the checkpoint, as a collector does when it was not renewed in time."""
        return lease is None or newest.checkpoint(lease.id) is None

    async def tend(self, newest: Manifest) -> None:
        """Renew what is half over and delete what nobody uses, in one change."""
        gone = [id for id in self._renew_at if newest.checkpoint(id) is None]
        for id in gone:
            if id not in self._unused:
                log.warning("checkpoint %s of this reader was deleted; reads that began in it may fail", id)
            self._forget(id)
        unused, due = self._to_tend()
        if unused or due:
            await self._change(unused, due)

    async def release_all(self) -> None:
        """Delete every checkpoint that is still there: the reader closes."""
        if self._renew_at:
            await self._change(set(self._renew_at), [])

    def _to_tend(self) -> tuple[set[UUID], list[UUID]]:
        """Those that nobody uses, and those that are used and half over."""
        now = self._runtime.monotonic()
        unused = self._unused & self._renew_at.keys()
        return unused, [id for id, at in self._renew_at.items() if at <= now and id not in unused]

    def _tended(self, manifest: Manifest, unused: Iterable[UUID], due: Iterable[UUID], now_ms: int) -> Manifest:
        for id in unused:
            manifest = without_checkpoint(manifest, id)
        for id in due:
            if manifest.checkpoint(id) is not None:
                manifest = with_checkpoint_refreshed(manifest, id, now_ms=now_ms, lifetime_ms=self._whole_seconds_ms())
        return manifest

    async def _change(self, unused: set[UUID], due: Iterable[UUID]) -> None:
        half_time = self._half_time()
        await self._manifests.update(lambda old: self._tended(old, unused, due, self._now_ms(old)))
        for id in unused:
            self._forget(id)
        self._renew_at.update(dict.fromkeys(due, half_time))

    def _forget(self, id: UUID) -> None:
        self._renew_at.pop(id, None)
        self._unused.discard(id)

    def _half_time(self) -> float:
        return self._runtime.monotonic() + self._lifetime / 2

    def _now_ms(self, manifest: Manifest) -> int:
        """By our clock, or by that of whoever has written to the manifest, if ours is behind."""
        now_ms = self._runtime.now_ms()
        seen_ms = max(
            [int(manifest.ssts.id.ms.max(initial=0)), *(1000 * each.create_time_s for each in manifest.checkpoints)]
        )
        return max(now_ms, min(seen_ms, now_ms + MOST_AHEAD_MS))

    def _whole_seconds_ms(self) -> int:
        """The manifest knows whole seconds and cuts the rest off: a little more, so that a lease never lasts less."""
        return int(self._lifetime * 1000) + SKEW_MS + 999
