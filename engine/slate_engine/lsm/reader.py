"""A reader of a database that somebody else writes (RFC-0004, Readers).

It shows the newest state and follows it, or stands at one checkpoint. What reads see is one frozen :class:`ReaderState`,
replaced as a whole: the manifest's SSTs, the rows of the log above them and, in a managed reader, the lease that keeps both
from garbage collection. A read holds the state it began in, so a scan of an hour ends in the state in which it began.
"""

from __future__ import annotations

import asyncio
import logging
from copy import copy
from dataclasses import dataclass, replace
from uuid import UUID

from slate_engine.errors import (
    ClosedError,
    CloseReason,
    DatabaseDeleted,
    DataError,
    Error,
    InternalError,
    InvalidError,
)
from slate_engine.format.filters import PrefixExtractor
from slate_engine.lsm.leases import Lease, Leases
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated, truncated, wal_frontier
from slate_engine.lsm.segments import Segments, check_extractor
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.wal_tail import WalTail, follow
from slate_engine.state.checkpoints import CheckpointMissing, check_usable
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import check_not_deleted
from slate_engine.store.protocol import NotFound

log = logging.getLogger(__name__)

SHORTEST_POLL = 0.01
"""A reader that is told to poll without a pause polls this often: every poll costs requests."""


@dataclass(frozen=True)
class ReaderOptions:
    """Times in seconds. The defaults are SlateDB's."""

    poll_interval: float = 10.0
    checkpoint_lifetime: float = 600.0
    max_memtable_bytes: int = 64 << 20
    """No table of rows from the log becomes larger than this."""
    skip_wal_replay: bool = False
    extractor: PrefixExtractor | None = None
    """The one that the database was made with."""


@dataclass(frozen=True)
class LeasedSnapshot(Snapshot):
    """A snapshot whose objects stay as long as somebody has it."""

    lease: Lease | None = None


@dataclass(frozen=True)
class ReaderState:
    """What a reader shows at one moment. ``manifest_id`` is the newest whose SSTs these are."""

    manifest_id: int
    manifest: Manifest
    tail: WalTail
    snapshot: LeasedSnapshot


class Reader:
    """Made by :meth:`latest`, :meth:`managed` or :meth:`at_checkpoint`; ends by :meth:`close`, or when the database is
    deleted."""

    def __init__(self, files: DatabaseFiles, options: ReaderOptions, leases: Leases | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._files = files
        self._options = options
        self._runtime = files.runtime
        self._leases = leases
        self._one_at_a_time = asyncio.Lock()
        self._poller: asyncio.Task[None] | None = None
        self.trouble: Error | None = None
        """Why the last look for a newer state failed, if it did."""
        self.lost: WalTruncated | None = None
        """The file of the log that is missing, if one is. Then reads are refused: what the reader has is not the newest, and
        how much is missing is not known."""
        self._looked_at = self._runtime.monotonic()
        self.error: ClosedError | None = None
        self.state: ReaderState

    @classmethod
    async def latest(cls, files: DatabaseFiles, options: ReaderOptions) -> Reader:
        """Follow the newest state and write nothing. Garbage collection does not know of this reader: its settings must
        leave SSTs alone for longer than a read takes."""
        reader = cls(files, options)
        newest, tail = await reader._from_the_beginning()
        reader.state = reader._shown(newest, None, tail)
        reader._poller = asyncio.ensure_future(reader._poll())
        return reader

    @classmethod
    async def managed(cls, files: DatabaseFiles, options: ReaderOptions) -> Reader:
        """Follow the newest state, and keep it by checkpoints."""
        _check_lifetime(options)
        reader = cls(files, options, Leases(files.manifests, files.runtime, options.checkpoint_lifetime))
        newest, tail = await reader._from_the_beginning()
        reader.state = await reader._established(newest, tail)
        reader._poller = asyncio.ensure_future(reader._poll())
        return reader

    @classmethod
    async def at_checkpoint(cls, files: DatabaseFiles, id: UUID, options: ReaderOptions) -> Reader:
        """Show what the checkpoint keeps, and nothing later."""
        reader = cls(files, options)
        checkpoint = (await reader._newest()).value.checkpoint(id)
        if checkpoint is None:
            raise CheckpointMissing(id)
        if checkpoint.is_expired(files.runtime.now_ms() / 1000):
            raise InvalidError(
                f"checkpoint {id} has expired: what it kept may be deleted at any moment; refresh it first, or read another"
            )
        try:
            manifest = await files.manifests.read(checkpoint.manifest_id)
        except NotFound:
            raise DataError(
                f"Data error: failed to find manifest with id. id=`{checkpoint.manifest_id}`: checkpoint {id} needs it, but "
                "it was deleted; restore it, or read another checkpoint"
            ) from None
        kept = Versioned(checkpoint.manifest_id, manifest)
        reader.state = await reader._state_of(kept, None, reader._empty_tail(manifest), until=manifest.wal_id_last_seen)
        return reader

    # --- reading -------------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        if self.error is not None:
            raise ClosedError(self.error.message, self.error.reason)

    def snapshot(self) -> LeasedSnapshot:
        """What the reader shows now; hold on to it while reading."""
        self.check_open()
        if self.lost is not None:
            raise copy(self.lost)
        return self.state.snapshot

    @property
    def staleness(self) -> float | None:
        """How long ago, in seconds, what the reader shows was known to be the newest; None at a checkpoint."""
        return None if self._poller is None else self._runtime.monotonic() - self._looked_at

    @property
    def last_seq(self) -> int:
        return self.state.snapshot.max_seq

    def segments(self) -> list[bytes]:
        """The prefixes of the segments that have rows, in order."""
        state = self.state
        known = Segments(self._options.extractor, (segment.prefix for segment in state.manifest.segments))
        for table in state.tail.tables:
            known.add(table.sorted.keys)
        return known.prefixes

    async def close(self) -> None:
        """Stop following, and delete the checkpoints. Closing twice is closing once."""
        if self.error is not None:
            return
        self.error = ClosedError("Closed error: db is closed", CloseReason.CLEAN)
        if self._poller is not None:
            self._poller.cancel()
            await asyncio.gather(self._poller, return_exceptions=True)
        if self._leases is not None:
            try:
                await self._leases.release_all()
            except Error as trouble:
                log.warning("the checkpoints of this reader could not be deleted, and will expire: %s", trouble)

    # --- following -----------------------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """Look now for what the next poll would find. A reader at a checkpoint has nothing to look for."""
        self.check_open()
        if self._poller is not None:
            async with self._one_at_a_time:
                began = self._runtime.monotonic()
                try:
                    await self._refresh()
                except WalTruncated as lost:
                    self.lost = lost
                    raise
                except DatabaseDeleted as deleted:
                    self._end(deleted)
                    raise
                self._looked_at, self.lost = began, None

    def _end(self, deleted: DatabaseDeleted) -> None:
        log.error("the reader stops: %s", deleted.message)
        self.error = deleted

    async def _poll(self) -> None:
        loop = Loop("following the writer", self._runtime)
        with loop.running():
            while self.error is None:
                await loop.sleep(max(self._options.poll_interval, SHORTEST_POLL))
                await self._look()

    async def _look(self) -> None:
        try:
            await self.refresh()
            if self.trouble is not None:
                log.info("the reader of %r follows its database again", self._files.path)
            self.trouble = None
        except WalTruncated as lost:
            if not isinstance(self.trouble, WalTruncated):
                log.error("the reader of %r refuses reads until it can follow the log: %s", self._files.path, lost)
            self.trouble = lost
        except ClosedError as end:
            self.trouble = end
        except Error as trouble:
            # Old data is better than none. Whether it is the store, or an object that is broken: the next poll tells.
            if self.trouble is None:
                log.warning("the reader of %r shows an old state, trying again: %s", self._files.path, trouble)
            self.trouble = trouble
        except Exception as defect:
            log.exception("the reader of %r could not look for a newer state, trying again", self._files.path)
            self.trouble = InternalError(f"the reader could not look for a newer state: {defect!r}")

    async def _refresh(self) -> None:
        state, leases = self.state, self._leases
        newest, tail = await self._caught_up(state.tail)
        changed = newest.id > state.manifest_id and newest.value.trees != state.manifest.trees
        if leases is not None and (changed or leases.is_lost(state.snapshot.lease, newest.value)):
            self.state = await self._established(newest, tail)
            return
        self.state = self._shown(newest, None, tail) if changed else _further(state, newest.id, tail)
        if leases is not None:
            await leases.tend(newest.value)

    async def _from_the_beginning(self) -> tuple[Versioned[Manifest], WalTail]:
        known = (await self._newest()).value
        return await self._caught_up(self._empty_tail(known), known)

    async def _caught_up(self, tail: WalTail, known: Manifest | None = None) -> tuple[Versioned[Manifest], WalTail]:
        """The newest manifest, and the log as far as it goes. The log is looked at first: after a look at the manifest,
        files that are flushed and collected in between would look like its end, and what they held be missing. ``known``
        is a manifest that was read before."""
        end = self._files.log_end(known)
        while True:
            if not self._options.skip_wal_replay:
                tail = await follow(self._files, tail)
            newest = await self._newest()
            if self._options.skip_wal_replay or await end.is_at(tail.last_id, newest.value):
                return newest, tail.above(newest.value)
            tail = tail.above(newest.value)

    async def _established(self, newest: Versioned[Manifest], tail: WalTail) -> ReaderState:
        """A state under a checkpoint of its own, which covers the log as far as it is written by now."""
        assert self._leases is not None
        tail = tail.above(newest.value)
        last_wal_id = 0
        if not self._options.skip_wal_replay:
            last_wal_id = await wal_frontier(self._files.log_store, self._files.paths, tail.last_id)
        lease, committed = await self._leases.establish(last_wal_id)
        tending = asyncio.ensure_future(self._tend(self._leases))
        try:
            state = await self._state_of(committed, lease, tail)
        finally:
            tending.cancel()
        last, needed = state.tail.last_id, committed.value.needed_wal_ids
        if not self._options.skip_wal_replay and last < committed.value.wal_id_last_seen:
            raise await truncated(self._files.log_store, self._files.paths, last + 1, needed)
        return state

    async def _tend(self, leases: Leases) -> None:
        """Reading the log may take longer than a checkpoint lives; nobody polls meanwhile."""
        pause = self._options.checkpoint_lifetime / 4
        while True:
            await self._runtime.sleep(pause)
            try:
                await leases.tend((await self._files.manifests.read_latest()).value)
            except Error as trouble:
                log.warning("the checkpoint of a reader of %r could not be renewed yet: %s", self._files.path, trouble)

    async def _newest(self) -> Versioned[Manifest]:
        newest = await self._files.manifests.read_latest()
        check_not_deleted(newest.value, self._files.path)
        check_usable(newest.value)
        check_extractor(newest.value, self._options.extractor)
        return newest

    def _empty_tail(self, manifest: Manifest) -> WalTail:
        return WalTail(manifest.replay_after_wal_id, manifest.last_l0_seq, self._options.max_memtable_bytes)

    async def _state_of(
        self, found: Versioned[Manifest], lease: Lease | None, tail: WalTail, until: int | None = None
    ) -> ReaderState:
        """The state of a manifest with its log: up to ``until``, or as far as it goes."""
        tail = tail.above(found.value)
        if not self._options.skip_wal_replay:
            tail = await follow(self._files, tail, until)
        return self._shown(found, lease, tail)

    def _shown(self, found: Versioned[Manifest], lease: Lease | None, tail: WalTail) -> ReaderState:
        levels, open_table = Levels(found.value.trees), self._files.tables.opener(found.value)
        snapshot = LeasedSnapshot(
            tail.tables, levels, open_table, tail.last_seq, self._files.operator, lease, runtime=self._runtime
        )
        return ReaderState(found.id, found.value, tail, snapshot)


def _further(state: ReaderState, manifest_id: int, tail: WalTail) -> ReaderState:
    """The same SSTs, which are those of ``manifest_id``, too, with more of the log."""
    if tail is not state.tail:
        state = replace(state, tail=tail, snapshot=replace(state.snapshot, memory=tail.tables, max_seq=tail.last_seq))
    return state if manifest_id == state.manifest_id else replace(state, manifest_id=manifest_id)


def _check_lifetime(options: ReaderOptions) -> None:
    lifetime, interval = options.checkpoint_lifetime, options.poll_interval
    if lifetime < 1:
        raise InvalidError(
            f"Invalid error: invalid checkpoint lifetime. lifetime=`{lifetime:g}s`: checkpoints expire by the second, so "
            "give it 1 s or more"
        )
    if lifetime <= 2 * interval:
        raise InvalidError(
            "Invalid error: checkpoint lifetime must be at least double the manifest poll interval. "
            f"lifetime=`{lifetime:g}s`, interval=`{interval:g}s`: it is renewed at half time, and a poll may come late; "
            "poll more often, or give it longer"
        )
