"""A database that is open for writing, as those who read it see it: its state, its transactions, and its end.

The state is one frozen :class:`~slate_engine.lsm.live_state.LiveState`, replaced as a whole. It changes with what is
written here, and with what others commit to the manifest, which is polled for that: compactors, and a newer writer, whose
coming is the end of this one.
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable

from slate_engine.errors import ClosedError, CloseReason, Error, Fenced, TransactionError
from slate_engine.lsm.fencing import Claim
from slate_engine.lsm.live_state import LiveState
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.outage import Outage
from slate_engine.lsm.pins import Pins
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.signal import Signal
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.transactions import Transaction, Transactions
from slate_engine.lsm.visible import MergeOperator
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import Moment
from slate_engine.state.commit import Versioned
from slate_engine.state.destroy import LINGER
from slate_engine.state.manifest import Manifest

log = logging.getLogger(__name__)


class LiveDatabase(ABC):
    """Everything but writing, which is the business of :class:`~slate_engine.lsm.writer.Writer`."""

    def __init__(self, files: DatabaseFiles, options: WriterOptions, claim: Claim) -> None:
        self.loop = asyncio.get_running_loop()
        self._files = files
        self._runtime = files.runtime
        self._options = options
        self._tenure = claim.tenure
        self._flushed_seq = claim.manifest.last_l0_seq
        self._transactions = Transactions()
        self._pins = Pins()
        self._changed = Signal()
        self._error: ClosedError | None = None
        self._latest: tuple[LiveState, Snapshot] | None = None
        self._looked = claim.looked
        self.state = LiveState.of(claim.manifest_id, claim.manifest, files.tables)
        self._poller = asyncio.ensure_future(self._poll())

    @property
    @abstractmethod
    def last_seq(self) -> int:
        """Of the last commit that everybody sees."""

    @property
    @abstractmethod
    def durable_seq(self) -> int:
        """Of the last commit up to which all are in the store."""

    @abstractmethod
    def _halt(self, error: ClosedError) -> None:
        """Have everything stop that works beside the database; whoever waits for it is told ``error``."""

    @property
    def operator(self) -> MergeOperator | None:
        return self._options.operator

    # --- reading -------------------------------------------------------------------------------------------------

    def snapshot(self, *, durable_only: bool = False) -> Snapshot:
        """What has been committed by now."""
        self.check_open()
        state = self.state
        seq = self.durable_seq if durable_only else self.last_seq
        known = self._latest
        if known is not None and known[0] is state and known[1].max_seq == seq:
            return known[1]
        snapshot = state.snapshot(seq, self._options.operator)
        self._latest = (state, snapshot)
        return snapshot

    def pin(self, holder: object) -> Snapshot:
        """A snapshot whose versions survive flushes and compactions as long as ``holder`` lives."""
        snapshot = self.snapshot()
        self.hold(holder, snapshot.max_seq)
        return snapshot

    def hold(self, holder: object, seq: int) -> None:
        """What is seen at ``seq`` now is seen at it as long as ``holder`` lives."""
        self._pins.hold(holder, seq)

    def begin(self) -> Transaction:
        self.check_open()
        return self._transactions.begin(self.last_seq)

    def check_conflict(self, transaction: Transaction) -> None:
        """Raises if the transaction has lost against what was committed since it began."""
        if (key := self._transactions.conflict(transaction)) is not None:
            raise TransactionError(f"Transaction error: transaction conflict over key {key!r}; begin again")

    def end(self, transaction: Transaction) -> None:
        self._transactions.end(transaction)

    def abandon(self, transaction: Transaction) -> None:
        """The same for one that was thrown away, at whatever moment Python notices it."""
        self._transactions.abandon(transaction)

    def retained_seq(self, otherwise: int) -> int:
        """The oldest state that anybody may still read; ``otherwise`` if nobody holds one."""
        held = (self._pins.oldest(), self._transactions.min_seq())
        return min([otherwise, *(seq for seq in held if seq is not None)])

    # --- what others did -----------------------------------------------------------------------------------------

    @property
    def epoch(self) -> int:
        return self._tenure.epoch

    def check_epoch(self, manifest: Manifest) -> None:
        """Raises :class:`Fenced` if ``manifest`` is of a newer writer."""
        self._tenure.check(manifest)

    def adopt(self, manifest_id: int, manifest: Manifest) -> None:
        """A newer manifest, written by us or found."""
        if manifest_id > self.state.manifest_id:
            self._flushed_seq = manifest.last_l0_seq
            self.state = self.state.under(manifest_id, manifest, self._files.tables)
            self._latest = None  # it would keep the flushed memtable alive
        self._changed.tell()

    async def refresh(self) -> None:
        """Look at the newest manifest now."""
        began = Moment(self._runtime)
        newest = await self._files.manifests.read_latest()
        self.check_epoch(newest.value)
        self._looked = began
        self.adopt(newest.id, newest.value)

    def is_current(self) -> bool:
        """Whether the last look at the manifest is recent enough to acknowledge a write: see
        :data:`~slate_engine.state.destroy.LINGER`."""
        return self._looked.age() < LINGER

    def observe(self, found: Versioned[Manifest]) -> None:
        """Somebody in this process has read or written a manifest: there is no need to wait until it is polled."""
        try:
            self.check_epoch(found.value)
        except Fenced as fenced:
            self.stop(fenced)
        else:
            self.adopt(found.id, found.value)

    async def update_manifest(self, transition: Callable[[Manifest], Manifest]) -> Versioned[Manifest]:
        """Commit a change to the manifest, as the writer that it belongs to."""

        def checked(old: Manifest) -> Manifest:
            self.check_epoch(old)
            return transition(old)

        committed = await self._files.manifests.update(checked)
        self.adopt(committed.id, committed.value)
        return committed

    async def _poll(self) -> None:
        loop, outage = Loop("following the manifest", self._runtime), Outage(self._runtime, "following the manifest")
        try:
            with loop.running():
                while True:
                    await loop.sleep(self._options.manifest_poll_interval)
                    try:
                        await self.refresh()
                    except Error as error:
                        outage.bear(error)
                    else:
                        outage.over()
        except Error as error:
            self.stop(error)
        except Exception as defect:
            log.exception("following the manifest failed")
            self.stop(ClosedError(f"following the manifest broke down: {defect!r}", CloseReason.PANIC))

    # --- the end -------------------------------------------------------------------------------------------------

    @property
    def error(self) -> ClosedError | None:
        return self._error

    def check_open(self) -> None:
        if self._error is not None:
            raise self._error

    def stop(self, error: Error) -> None:
        """The end, for whatever reason: called by the parts that work beside the writer when they cannot go on."""
        if self._error is not None:
            return
        self._error = error if isinstance(error, ClosedError) else ClosedError(error.message, CloseReason.UNKNOWN)
        if self._error.reason is not CloseReason.CLEAN:
            log.error("the writer stops: %s", error.message)
        self._poller.cancel()
        self._halt(self._error)
        self._changed.tell()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for room, for a flush, for another manifest, or for the end."""
        await self._changed.until(condition)
