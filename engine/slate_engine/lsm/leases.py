"""The checkpoints by which a reader keeps what it reads from garbage collection (RFC-0004, Readers).

A :class:`Lease` is in use as long as anybody refers to it: the reader for its present state, and every read that began in
an earlier one. Leases that are in use are renewed before half of their time is over; the others are deleted.
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
        """A checkpoint of the newest state, with the log up to at least ``wal_id_last_seen``; and the manifest it keeps."""
        lease = Lease(uuid4(self._runtime))
        now_ms = self._runtime.now_ms()

        def change(old: Manifest) -> Manifest:
            new = replace(old, wal_id_last_seen=max(old.wal_id_last_seen, wal_id_last_seen))
            for id in unused:
                new = without_checkpoint(new, id)
            return with_checkpoint(new, id=lease.id, now_ms=now_ms, lifetime_ms=self._whole_seconds_ms())

        unused = self._unused & self._renew_at.keys()
        committed = await self._manifests.update(change)
        for id in unused:
            self._forget(id)
        self._renew_at[lease.id] = self._half_time()
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
        now = self._runtime.monotonic()
        unused = self._unused & self._renew_at.keys()
        due = [id for id, at in self._renew_at.items() if at <= now and id not in unused]
        if unused or due:
            await self._change(unused, due)

    async def release_all(self) -> None:
        """Delete every checkpoint that is still there: the reader closes."""
        if self._renew_at:
            await self._change(set(self._renew_at), [])

    async def _change(self, unused: set[UUID], due: Iterable[UUID]) -> None:
        now_ms = self._runtime.now_ms()

        def change(old: Manifest) -> Manifest:
            new = old
            for id in unused:
                new = without_checkpoint(new, id)
            for id in due:
                if new.checkpoint(id) is not None:
                    new = with_checkpoint_refreshed(new, id, now_ms=now_ms, lifetime_ms=self._whole_seconds_ms())
            return new

        half_time = self._half_time()
        await self._manifests.update(change)
        for id in unused:
            self._forget(id)
        self._renew_at.update(dict.fromkeys(due, half_time))

    def _forget(self, id: UUID) -> None:
        self._renew_at.pop(id, None)
        self._unused.discard(id)

    def _half_time(self) -> float:
        return self._runtime.monotonic() + self._lifetime / 2

    def _whole_seconds_ms(self) -> int:
        """The manifest knows whole seconds and cuts the rest off: a little more, so that a lease never lasts less."""
        return int(self._lifetime * 1000) + 999
