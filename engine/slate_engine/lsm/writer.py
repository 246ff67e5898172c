"""The live writer of a database.

One event loop owns it, so a commit is atomic by not awaiting anything between its checks and its effects: sequence number,
rows into the memtable, rows into the WAL. Everything slow happens beside it: the WAL is written by
:class:`~slate_engine.lsm.wal_writer.WalWriter`, full memtables are turned into L0 SSTs by
:class:`~slate_engine.lsm.flusher.Flusher`, and the manifest is polled for what compactors and newer writers did.

What readers see is one frozen :class:`State`, replaced as a whole.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from slate_engine.errors import (
    ClosedError,
    CloseReason,
    Error,
    Fenced,
    InvalidError,
    TransactionError,
    UnavailableError,
)
from slate_engine.lsm.commit import Change, commit_rows
from slate_engine.lsm.fencing import Claim, claim_database
from slate_engine.lsm.flusher import Flusher, FrozenMemtable
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.memtable import Memtable
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.lsm.segments import Segments
from slate_engine.lsm.signal import Signal
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.table import Table
from slate_engine.lsm.transactions import Transaction, Transactions
from slate_engine.lsm.visible import MergeOperator
from slate_engine.lsm.wal_writer import WalFile, WalWriter
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import SstView
from slate_engine.store.protocol import StoreUnavailable

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Tally:
    """What a writer has done so far, in numbers that only grow."""

    bytes_written: int
    waits_for_room: int
    memtables_flushed: int
    l0_bytes: int
    wal_files: int
    wal_bytes: int


@dataclass(frozen=True)
class State:
    """All that a read needs, newest first."""

    manifest_id: int
    manifest: Manifest
    levels: Levels
    open_table: Callable[[SstView], Table]
    active: Memtable
    frozen: tuple[FrozenMemtable, ...] = ()


class Commit:
    """A commit that is visible, and becomes durable."""

    def __init__(self, writer: Writer, seq: int, create_ts: int, file: WalFile | None) -> None:
        self.seq = seq
        self.create_ts = create_ts
        self._writer = writer
        self._file = file

    async def durable(self) -> None:
        """Wait until the commit is in the store. Raises if it never will be."""
        if self._file is not None:
            self._writer.wal_wanted(self._file)
            await asyncio.shield(self._file.stored)
        else:
            await self._writer.flushed(self.seq)


class Writer:
    """Made by :meth:`open`; ends by :meth:`close`, or by being fenced."""

    def __init__(self, files: DatabaseFiles, options: WriterOptions, claim: Claim) -> None:
        self._files = files
        self._runtime = files.runtime
        self._options = options
        self.epoch = claim.epoch
        self._last_seq = max([claim.manifest.last_l0_seq, *(row.seq for row in claim.replayed)])
        self._tick = max([claim.manifest.last_l0_clock_tick, *(row.create_ts for row in claim.replayed)])
        self._flushed_seq = claim.manifest.last_l0_seq
        self._transactions = Transactions()
        self._snapshots: Counter[int] = Counter()
        self._segments = Segments(options.extractor, (segment.prefix for segment in claim.manifest.segments))
        self._changed = Signal()
        self._error: ClosedError | None = None
        self._replaying = False
        self._bytes_written = 0
        self._waits_for_room = 0
        self._latest: tuple[State, Snapshot] | None = None
        self.state = self._state_of(claim.manifest_id, claim.manifest, Memtable())
        self._wal: WalWriter | None = None
        if options.wal_enabled:
            self._wal = WalWriter(
                files.wal_store or files.store,
                files.paths,
                files.runtime,
                next_id=claim.next_wal_id,
                durable_seq=self._last_seq,
                flush_interval=options.flush_interval,
                max_bytes=options.l0_sst_size_bytes,
                max_parallel=options.max_parallel_writes,
                codec=options.sst.codec,
                fenced=self._who_fenced,
                advanced=self._wal_advanced,
                failed=self._stop,
            )
        self._flusher = Flusher(self, files, options)
        self._poller = asyncio.ensure_future(self._poll())
        self._take_replayed(claim.replayed)

    @classmethod
    async def open(cls, files: DatabaseFiles, options: WriterOptions) -> Writer:
        """Take the database over from whoever writes it now, creating it if there is none."""
        return cls(files, options, await claim_database(files, options))

    # --- writing -------------------------------------------------------------------------------------------------

    async def write(self, changes: Sequence[Change], *, seq: int = 0, transaction: Transaction | None = None) -> Commit:
        """Commit ``changes`` as one. Returns when they are visible; :meth:`Commit.durable` waits for the store."""
        self.check_open()
        if self._must_wait():
            await self._wait_for_room()
        return self._commit(changes, seq, transaction)

    def _commit(self, changes: Sequence[Change], seq: int, transaction: Transaction | None) -> Commit:
        self.check_open()
        if seq and seq <= self._last_seq:
            raise InvalidError(
                "Invalid error: invalid sequence number, must be greater than the current max. "
                f"provided=`{seq}`, current=`{self._last_seq}`"
            )
        if transaction is not None:
            self.check_conflict(transaction)
        seq = seq or self._last_seq + 1
        now = max(self._runtime.now_ms(), self._tick)
        rows = commit_rows(changes, seq, now, self._options.operator)
        keys = [row.key for row in rows]
        self._segments.add(keys)
        file = self._wal.append(rows) if self._wal is not None else None
        active = self.state.active
        before = active.payload_bytes
        active.insert(rows)
        self._bytes_written += active.payload_bytes - before
        self._last_seq, self._tick = seq, now
        self._transactions.committed(keys, seq)
        if self._memtable_is_full():
            self.freeze()
        return Commit(self, seq, now, file)

    def _memtable_is_full(self) -> bool:
        if self.state.active.payload_bytes >= self._options.l0_sst_size_bytes:
            return True
        frozen = self.state.frozen
        replayed_from = frozen[0].replay_after if frozen else self.state.manifest.replay_after_wal_id
        return self._wal is not None and self._wal.last_stored_id - replayed_from >= self._options.max_wal_files

    def freeze(self) -> None:
        """Close the active memtable for writing and have it flushed."""
        state = self.state
        if not len(state.active):
            return
        frozen = FrozenMemtable(state.active, self._replay_after(), self._runtime.now_ms() // 1000)
        self.state = replace(state, active=Memtable(), frozen=(frozen, *state.frozen))
        self._changed.tell()

    def _replay_after(self) -> int:
        """The last WAL file all of whose rows are in memory by now, or in L0. While the log is being replayed that is none
        of it: the rows of its files come one by one."""
        if self._wal is None or self._replaying:
            return self.state.manifest.replay_after_wal_id
        return self._wal.last_stored_id

    @property
    def pending(self) -> FrozenMemtable | None:
        return self.state.frozen[-1] if self.state.frozen else None

    @property
    def l0_count(self) -> int:
        return max(len(tree.l0) for tree in self.state.manifest.trees)

    @property
    def unflushed_bytes(self) -> int:
        state = self.state
        return state.active.memory_bytes + sum(frozen.memtable.memory_bytes for frozen in state.frozen)

    def _must_wait(self) -> bool:
        return self.unflushed_bytes >= self._options.max_unflushed_bytes

    async def _wait_for_room(self) -> None:
        self._waits_for_room += 1
        await self.until(self._has_room)

    def _has_room(self) -> bool:
        if self._error is not None or not self._must_wait():
            return True
        # Whoever waited before us may have filled the memtable that came after the flush: that has to go, too.
        self.freeze()
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
    def durable_seq(self) -> int:
        return max(self._flushed_seq, self._wal.durable_seq if self._wal is not None else 0)

    @property
    def trouble(self) -> UnavailableError | None:
        """Why nothing becomes durable at the moment, if that is so."""
        return (self._wal.trouble if self._wal is not None else None) or self._flusher.trouble

    @property
    def last_wal_id(self) -> int:
        return self._wal.last_stored_id if self._wal is not None else self.state.manifest.wal_id_last_seen

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

    # --- reading -------------------------------------------------------------------------------------------------

    def snapshot(self, *, durable_only: bool = False) -> Snapshot:
        """What has been committed by now."""
        self.check_open()
        state = self.state
        seq = self.durable_seq if durable_only else self._last_seq
        known = self._latest
        if known is not None and known[0] is state and known[1].max_seq == seq:
            return known[1]
        memory = (state.active, *(frozen.memtable for frozen in state.frozen))
        snapshot = Snapshot(memory, state.levels, state.open_table, seq, self._options.operator)
        self._latest = (state, snapshot)
        return snapshot

    def pin(self, holder: object) -> Snapshot:
        """A snapshot whose versions survive flushes and compactions as long as ``holder`` lives."""
        snapshot = self.snapshot()
        self.hold(holder, snapshot.max_seq)
        return snapshot

    def hold(self, holder: object, seq: int) -> None:
        """What is seen at ``seq`` now is seen at it as long as ``holder`` lives."""
        self._snapshots[seq] += 1
        weakref.finalize(holder, self._unpin, seq)

    def _unpin(self, seq: int) -> None:
        self._snapshots[seq] -= 1
        if not self._snapshots[seq]:
            del self._snapshots[seq]

    def begin(self) -> Transaction:
        self.check_open()
        return self._transactions.begin(self._last_seq)

    def check_conflict(self, transaction: Transaction) -> None:
        """Raises if the transaction has lost against what was committed since it began."""
        if (key := self._transactions.conflict(transaction)) is not None:
            raise TransactionError(f"Transaction error: transaction conflict over key {key!r}; begin again")

    def end(self, transaction: Transaction) -> None:
        self._transactions.end(transaction)

    def retained_seq(self, otherwise: int) -> int:
        """The oldest state that anybody may still read; ``otherwise`` if nobody holds one."""
        held = [*self._snapshots, *([seq] if (seq := self._transactions.min_seq()) is not None else [])]
        return min([*held, otherwise])

    # --- what others did -----------------------------------------------------------------------------------------

    @property
    def operator(self) -> MergeOperator | None:
        return self._options.operator

    @property
    def segments(self) -> Segments:
        return self._segments

    def adopt(self, manifest_id: int, manifest: Manifest) -> None:
        """A newer manifest, written by us or found. What it has in L0 leaves the memory in the same step: rows that are in
        both would count twice where they are merged."""
        if manifest_id > self.state.manifest_id:
            self._flushed_seq = manifest.last_l0_seq
            kept = tuple(each for each in self.state.frozen if each.memtable.last_seq > manifest.last_l0_seq)
            self.state = replace(self._state_of(manifest_id, manifest, self.state.active), frozen=kept)
            self._latest = None  # it would keep the flushed memtable alive
        self._changed.tell()

    def _state_of(self, manifest_id: int, manifest: Manifest, active: Memtable) -> State:
        return State(manifest_id, manifest, Levels(manifest.trees), self._files.tables.opener(manifest), active)

    def check_epoch(self, manifest: Manifest) -> None:
        """Raises :class:`Fenced` if ``manifest`` is of a newer writer."""
        if manifest.writer_epoch > self.epoch:
            raise Fenced(
                f"writer epoch {manifest.writer_epoch} has taken over from this one ({self.epoch}); stop this process, or "
                "open the database again to take it back"
            )

    async def refresh(self) -> None:
        """Look at the newest manifest now."""
        newest = await self._files.manifests.read_latest()
        self.check_epoch(newest.value)
        self.adopt(newest.id, newest.value)

    async def update_manifest(self, transition: Callable[[Manifest], Manifest]) -> Versioned[Manifest]:
        """Commit a change to the manifest, as the writer that it belongs to."""

        def checked(old: Manifest) -> Manifest:
            self.check_epoch(old)
            return transition(old)

        committed = await self._files.manifests.update(checked)
        self.adopt(committed.id, committed.value)
        return committed

    async def _poll(self) -> None:
        while True:
            await self._runtime.sleep(self._options.manifest_poll_interval)
            try:
                await self.refresh()
            except StoreUnavailable as trouble:
                log.warning("the manifest cannot be read at the moment: %s", trouble)
            except Error as error:
                self._stop(error)

    async def _who_fenced(self, wal_id: int) -> Error:
        try:
            self.check_epoch((await self._files.manifests.read_latest()).value)
        except StoreUnavailable:
            raise
        except Error as error:
            return error
        return Fenced(
            f"somebody else wrote WAL file {wal_id} under the epoch of this writer ({self.epoch}); let one process only "
            "write this database"
        )

    # --- the end -------------------------------------------------------------------------------------------------

    @property
    def error(self) -> ClosedError | None:
        return self._error

    def check_open(self) -> None:
        if self._error is not None:
            raise self._error

    async def close(self, *, flush_memtable: bool = False, flush_wal: bool = True) -> None:
        """Make durable what was committed, and stop."""
        self.check_open()
        try:
            if flush_memtable:
                await self.flush_memtable()
            elif flush_wal:
                await self.flush_wal()
        finally:
            self._stop(ClosedError("Closed error: db is closed", CloseReason.CLEAN))
            await self._flusher.close()
            if self._wal is not None:
                await self._wal.close()
            await asyncio.gather(self._poller, return_exceptions=True)

    def _stop(self, error: Error) -> None:
        if self._error is not None:
            return
        self._error = error if isinstance(error, ClosedError) else ClosedError(error.message, CloseReason.UNKNOWN)
        if self._error.reason is not CloseReason.CLEAN:
            log.error("the writer stops: %s", error.message)
        self._poller.cancel()
        self._flusher.stop()
        if self._wal is not None:
            self._wal.fail(self._error)
        self._changed.tell()

    def stop(self, error: Error) -> None:
        """Called by the parts that work beside the writer when they cannot go on."""
        self._stop(error)

    def _wal_advanced(self) -> None:
        if self._memtable_is_full():
            self.freeze()
        self._changed.tell()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for room, for a flush, for another manifest, or for the end."""
        await self._changed.until(condition)

    def _take_replayed(self, rows: Iterable[Row]) -> None:
        """What the WAL held goes back into memory, and on to L0 if it is much. A memtable ends between commits only: L0 is
        taken to hold every row of the last sequence number that it holds, and nobody would look for the others."""
        self._replaying = True
        for _, commit in groupby(rows, key=lambda row: row.seq):
            whole = list(commit)
            self._segments.add(row.key for row in whole)
            self.state.active.insert(whole)
            if self.state.active.payload_bytes >= self._options.l0_sst_size_bytes:
                self.freeze()
        self._replaying = False
