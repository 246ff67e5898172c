"""The live writer of a database.

One event loop owns it, so a commit is atomic by not awaiting anything between its checks and its effects: sequence number,
rows into the memtable, rows into the WAL. Everything slow happens beside it: the WAL is written by
:class:`~slate_engine.lsm.wal_writer.WalWriter`, full memtables are turned into L0 SSTs by
:class:`~slate_engine.lsm.flusher.Flusher`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import replace

from slate_engine.errors import ClosedError, CloseReason, Fenced, InvalidError, UnavailableError
from slate_engine.format.columns import Rows
from slate_engine.lsm.commit import Change, commit_rows
from slate_engine.lsm.committed import Commit
from slate_engine.lsm.fencing import Claim, claim_database
from slate_engine.lsm.flusher import Flusher
from slate_engine.lsm.l0_room import has_room, l0_count
from slate_engine.lsm.live_database import LiveDatabase
from slate_engine.lsm.live_state import FrozenMemtable
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import replay_files
from slate_engine.lsm.segments import Segments
from slate_engine.lsm.tally import Tally
from slate_engine.lsm.transactions import Transaction
from slate_engine.lsm.undisturbed import undisturbed
from slate_engine.lsm.visible import MAX_SEQ
from slate_engine.lsm.wal_writer import WalFile, WalWriter
from slate_engine.lsm.writer_options import WriterOptions

log = logging.getLogger(__name__)

TURN_BYTES = 256 << 10
"""After so much has been written, everybody else in the event loop has a turn."""

CANCELLED_SECONDS = 2.0
"""What a close that was cancelled may still take: a service that drains has no time left then."""


class Writer(LiveDatabase):
    """Made by :meth:`open`; ends by :meth:`close`, or by being fenced."""

    def __init__(self, files: DatabaseFiles, options: WriterOptions, claim: Claim) -> None:
        super().__init__(files, options, claim)
        self._last_seq = claim.manifest.last_l0_seq
        self._tick = claim.manifest.last_l0_clock_tick
        self._segments = Segments(options.extractor, (segment.prefix for segment in claim.manifest.segments))
        self._replaying = False
        self._replayed_seq, self._replayed_id = 0, claim.next_wal_id - 1
        self._bytes_written = self._turn_began = 0
        self._waits_for_room = 0
        self._wal: WalWriter | None = None
        if options.wal_enabled:
            self._wal = WalWriter(
                self._tenure,
                options,
                next_id=claim.next_wal_id,
                durable_seq=self._last_seq,
                advanced=self._wal_advanced,
                failed=self.stop,
                is_current=self.is_current,
                look=self.refresh,
            )
        self._flusher = Flusher(self, files, options)

    @classmethod
    async def open(cls, files: DatabaseFiles, options: WriterOptions) -> Writer:
        """Take the database over from whoever writes it now, creating it if there is none."""
        claim = await claim_database(files, options)
        writer = cls(files, options, claim)
        try:
            await writer._replay(claim.wal_ids)
        except BaseException as failure:
            writer.stop(ClosedError(f"the log could not be replayed: {failure!r}", CloseReason.UNKNOWN))
            raise
        return writer

    # --- writing -------------------------------------------------------------------------------------------------

    async def write(self, changes: Sequence[Change], *, seq: int = 0, transaction: Transaction | None = None) -> Commit:
        """Commit ``changes`` as one. Returns when they are visible; :meth:`Commit.durable` waits for the store."""
        self.check_open()
        if self._must_wait():
            await self._wait_for_room()
        elif self._bytes_written - self._turn_began >= TURN_BYTES:
            # Whoever writes in a loop never waits for anything here, and the log would not be written before he is done.
            self._turn_began = self._bytes_written
            await self._runtime.sleep(0)
        return self._commit(changes, seq, transaction)

    def _commit(self, changes: Sequence[Change], seq: int, transaction: Transaction | None) -> Commit:
        self.check_open()
        if seq and seq <= self._last_seq:
            raise InvalidError(
                "Invalid error: invalid sequence number, must be greater than the current max. "
                f"provided=`{seq}`, current=`{self._last_seq}`"
            )
        seq = seq or self._last_seq + 1
        if seq >= MAX_SEQ:
            raise InvalidError(
                f"Invalid error: invalid sequence number, must be less than {MAX_SEQ}: nothing could be written after it; "
                f"give a smaller one. current=`{self._last_seq}`"
            )
        if transaction is not None:
            self.check_conflict(transaction)
        now = max(self._runtime.now_ms(), self._tick)
        active = self.state.active
        before = active.payload_bytes
        with undisturbed(len(changes)):
            rows = commit_rows(changes, seq, now, self._options.operator)
            keys = [row.key for row in rows]
            self._segments.add(keys)
            file = self._wal.append(rows) if self._wal is not None else None
            active.insert(rows)
        self._bytes_written += active.payload_bytes - before
        self._last_seq, self._tick = seq, now
        self._transactions.committed(keys, seq)
        if self._memtable_is_full():
            self.freeze()
        return Commit(self, seq, now, file)

    def _memtable_is_full(self) -> bool:
        if self._is_large_enough():
            return True
        wal = self._wal
        return wal is not None and wal.last_stored_id - self.state.replay_after >= self._options.max_wal_files

    def _is_large_enough(self) -> bool:
        return self.state.active.payload_bytes >= self._options.l0_sst_size_bytes

    def freeze(self) -> None:
        """Close the active memtable for writing and have it flushed."""
        if len(self.state.active):
            self.state = self.state.frozen_now(self._replay_after(), self._runtime.now_ms() // 1000)
            self._changed.tell()

    def _replay_after(self) -> int:
        """The last WAL file all of whose rows are in memory by now, or in L0. While the log is being replayed that is none
        of it: the rows of its files come one by one."""
        if self._wal is None or self._replaying:
            return self.state.manifest.replay_after_wal_id
        return self._wal.last_stored_id

    @property
    def segments(self) -> Segments:
        return self._segments

    @property
    def pending(self) -> FrozenMemtable | None:
        """The oldest memtable that is to be flushed."""
        return self.state.pending

    @property
    def l0_count(self) -> int:
        """The number of SSTs in the largest level 0."""
        return l0_count(self.state.manifest.trees)

    @property
    def has_l0_room(self) -> bool:
        """Whether level 0 can take one more SST, or has to be compacted first."""
        return has_room(self.state.manifest.trees, self._options.l0_max_ssts, self._options.l0_max_ssts_per_key)

    @property
    def unflushed_bytes(self) -> int:
        """The memory that is taken by rows on their way to level 0, and to the log."""
        return self.state.unflushed_bytes + (self._wal.memory_bytes if self._wal is not None else 0)

    def _must_wait(self) -> bool:
        return self.unflushed_bytes >= self._options.max_unflushed_bytes

    async def _wait_for_room(self) -> None:
        self._waits_for_room += 1
        await self.until(self._has_room)

    def _has_room(self) -> bool:
        if self._error is not None or not self._must_wait():
            return True
        # A flush under way will make room. After the last one, the memtable that came after it has to go, too; and so has
        # what the log holds back, even if flushing it is left to the user: he waits himself.
        if self.pending is None:
            self.freeze()
        if self._wal is not None:
            self._wal.hurry()
        return False

    # --- durability ----------------------------------------------------------------------------------------------

    @property
    def tally(self) -> Tally:
        wal, flusher = self._wal, self._flusher
        return Tally(
            self._bytes_written,
            self._waits_for_room,
            flusher.memtables_flushed,
            flusher.bytes_flushed,
            wal.files_stored if wal is not None else 0,
            wal.bytes_stored if wal is not None else 0,
        )

    @property
    def last_seq(self) -> int:
        return self._last_seq

    @property
    def durable_seq(self) -> int:
        return max(self._flushed_seq, self._wal.durable_seq if self._wal is not None else self._replayed_seq)

    @property
    def trouble(self) -> UnavailableError | None:
        """Why nothing becomes durable at the moment, if that is so."""
        return (self._wal.outage.trouble if self._wal is not None else None) or self._flusher.outage.trouble

    @property
    def last_wal_id(self) -> int:
        """Up to this one all files of the log are stored."""
        return self._wal.last_stored_id if self._wal is not None else self._replayed_id

    def wal_wanted(self, file: WalFile) -> None:
        if self._wal is not None:
            self._wal.want(file)

    async def flush_wal(self) -> None:
        """Wait until everything committed so far is durable."""
        self.check_open()
        if self._wal is not None:
            await self._wal.flush()
        else:
            await self.flush_memtable()

    async def flush_memtable(self) -> None:
        """Wait until everything committed so far is in L0."""
        self.check_open()
        seq = self._last_seq
        if self._wal is not None:
            await self._wal.flush()
        self.freeze()
        await self.flushed(seq)

    async def durable(self, seq: int) -> None:
        """Wait until everything up to ``seq`` is durable, without asking for it."""
        await self.until(lambda: self._error is not None or self.durable_seq >= seq)
        if self.durable_seq < seq and self._error is not None:
            raise self._error

    async def flushed(self, seq: int) -> None:
        """Wait until L0 holds everything up to ``seq``."""
        await self.until(lambda: self._error is not None or self._flushed_seq >= seq)
        if self._flushed_seq < seq and self._error is not None:
            raise self._error

    # --- the beginning and the end -------------------------------------------------------------------------------

    async def _replay(self, wal_ids: range) -> None:
        """What the WAL held goes back into memory, and on to L0 if it is much, file by file: to open a database takes no
        more memory than to write it."""
        files = self._files
        self._replaying = True
        async with aclosing(
            replay_files(files.log_store, files.paths, wal_ids, self._last_seq, self._runtime)
        ) as replayed:
            async for rows in replayed:
                if not len(rows):
                    continue
                if self._must_wait() and self.state.active.last_seq != int(rows.seq[0]):
                    # Level 0 without room is not waited for: who compacts it may only come when the database is open.
                    await self.until(lambda: self._has_room() or not self.has_l0_room)
                self.check_open()
                self._take_replayed(rows)
        if self._is_large_enough():
            self.freeze()
        self._replaying = False

    def _take_replayed(self, rows: Rows) -> None:
        """A memtable ends between commits only: L0 is taken to hold every row of the last sequence number that it holds, and
        nobody would look for the others."""
        self._segments.add(rows.keys)
        start = 0
        while start < len(rows):
            if self._is_large_enough() and self.state.active.last_seq != int(rows.seq[start]):
                self.freeze()
            start = self.state.active.take_commits(rows, start, self._options.l0_sst_size_bytes)
        self._last_seq = max(self._last_seq, int(rows.seq.max()))
        self._tick = max(self._tick, int(rows.create_ts.max()))
        self._replayed_seq = self._last_seq
        if self._wal is not None:
            self._wal.durable_seq = self._last_seq

    async def close(self, *, flush_memtable: bool = False, flush_wal: bool = True) -> None:
        """Make durable what was committed, and stop. Without a flush, what is not durable yet is lost."""
        self.check_open()
        try:
            if flush_memtable:
                await self.flush_memtable()
            elif flush_wal:
                await self.flush_wal()
        finally:
            try:
                await self._record_log_end()
            finally:
                self.stop(ClosedError("Closed error: db is closed", CloseReason.CLEAN))
                await self._flusher.close()
                if self._wal is not None:
                    await self._wal.close()
                await asyncio.gather(self._poller, return_exceptions=True)

    async def _record_log_end(self) -> None:
        """Have the manifest say how far the log goes, if the log alone holds some of the rows. A checkpoint that is made
        from outside holds the log up to there, and no further. A writer that failed or was fenced records nothing: the next
        writer finds the end. A close that is cancelled, before this or meanwhile, takes a moment for it all the same."""
        closing = asyncio.current_task()
        if closing is not None and closing.cancelling() > 0:
            await self._record_at_once()
            return
        try:
            if self._wal is not None:
                await self._wal.settle()
            await self._record()
        except asyncio.CancelledError:
            await self._record_at_once()
            raise

    async def _record_at_once(self) -> None:
        try:
            async with asyncio.timeout(CANCELLED_SECONDS):
                await self._record()
        except TimeoutError:
            log.warning(
                "the writer closes without recording the end of its log, file %d: no time left", self.last_wal_id
            )

    async def _record(self) -> None:
        last = self.last_wal_id
        if self._error is not None or self.durable_seq <= self._flushed_seq:
            return
        if self.state.manifest.wal_id_last_seen >= last:
            return
        try:
            await self.update_manifest(
                lambda old: old if old.wal_id_last_seen >= last else replace(old, wal_id_last_seen=last)
            )
        except Fenced as fenced:
            self.stop(fenced)

    def _halt(self, error: ClosedError) -> None:
        self._flusher.stop(error)
        if self._wal is not None:
            self._wal.fail(error)

    def _wal_advanced(self) -> None:
        if self._memtable_is_full():
            self.freeze()
        self._changed.tell()
