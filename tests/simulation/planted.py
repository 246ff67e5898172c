"""Safety mechanisms switched off, one at a time: what a simulation that is worth anything must notice.

Each is a context manager that takes a mechanism out of the engine, as a programmer might who has not thought of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from slate_engine.format.ids import Ulid
from slate_engine.lsm import fencing, flusher, replay
from slate_engine.lsm.committed import Commit
from slate_engine.lsm.flusher import Flusher
from slate_engine.lsm.live_database import LiveDatabase
from slate_engine.lsm.memtable import Memtable
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.transactions import Transaction, Transactions
from slate_engine.lsm.wal_writer import WalWriter
from slate_engine.lsm.writer import Writer
from slate_engine.state.manifest import Manifest
from slate_engine.store import retry
from slate_engine.store.marks import Verdict, judge
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import OVERWRITE, Buffer, Conflict, PutMode, StoreUnavailable
from slate_engine.store.retry import RetryingStore
from tests.simulation.mutation import edited

Switch = Callable[[], AbstractContextManager[object]]


# --- fencing ---------------------------------------------------------------------------------------------------------


@contextmanager
def flush_without_epoch_check() -> Iterator[None]:
    added = Flusher._added

    def blind(self: Flusher, old: Manifest, *rest: Any) -> Manifest:
        with mock.patch.object(self._owner, "check_epoch", return_value=None):
            return added(self, old, *rest)

    with mock.patch.object(Flusher, "_added", blind):
        yield


def no_fence() -> AbstractContextManager[object]:
    """Whoever takes over goes on where the log ends, and shuts nobody out."""
    return edited(fencing, "fence_log", "await store.put(files.paths.wal(next_id), FENCE, tenure.create)", "break")


def no_epoch_check_at_opening() -> AbstractContextManager[object]:
    return mock.patch.object(fencing, "_check_epoch", return_value=None)


def no_new_epoch() -> AbstractContextManager[object]:
    return mock.patch.object(fencing, "claim_writer", replace)


def fence_of_one_file() -> AbstractContextManager[object]:
    async def one(files: DatabaseFiles) -> int:
        return 1

    return mock.patch.object(fencing, "read_window", one)


def window_not_recorded() -> AbstractContextManager[object]:
    async def nothing(files: DatabaseFiles, wanted: int) -> None:
        pass

    return mock.patch.object(fencing, "widen_window", nothing)


# --- the log ---------------------------------------------------------------------------------------------------------


def taken_id_counts_as_stored() -> AbstractContextManager[object]:
    return edited(
        WalWriter, "_store_file", "raise await self.outage.outlast(lambda: self._tenure.taken(id)) from None", "pass"
    )


def acknowledged_without_a_look() -> AbstractContextManager[object]:
    """Whether the database is still this writer's was looked at some time ago."""
    return edited(LiveDatabase, "is_current", "self._looked.age() < LINGER", "True")


@contextmanager
def taken_id_counts_as_own_if_unknown() -> Iterator[None]:
    """After an attempt whose outcome is unknown, whatever stands there is taken for what we wrote. A look would tell."""
    held = "(unsure and await self.outage.outlast(lambda: self._holds(key, data)))"
    with acknowledged_without_a_look(), edited(WalWriter, "_store_file", held, "unsure"):
        yield


def stored_ids_used_again() -> AbstractContextManager[object]:
    """Counted from how many files are stored in a row: behind a gap, ids of files that are there are given out anew."""
    right = "id, self._next_id = self._next_id, self._next_id + 1"
    wrong = "id = self._next_id = self.last_stored_id + len(self._under_way) + 1"
    return edited(WalWriter, "_run", right, wrong)


def acknowledged_before_stored() -> AbstractContextManager[object]:
    async def at_once(self: Commit) -> None:
        return None

    return mock.patch.object(Commit, "durable", at_once)


def acknowledged_before_its_predecessor_is_stored() -> AbstractContextManager[object]:
    """A file that is stored is acknowledged at once, though one before it may yet be lost."""
    right = "self._stored_ahead[id] = file"
    wrong = f"{right}\n    file.stored.done() or file.stored.set_result(None)"
    return edited(WalWriter, "_acknowledge", right, wrong)


def gaps_overlooked() -> AbstractContextManager[object]:
    """Files are counted as they come, and not those without a gap before them."""
    return edited(WalWriter, "_acknowledge", "pop(self.last_stored_id + 1, None)", "pop(id, None)")


def closes_leave_the_end_of_the_log_behind() -> AbstractContextManager[object]:
    """A writer that closes without a flush says nothing of the files that the manifest does not know of."""
    return edited(Writer, "close", "await self._record_log_end()", "pass")


def writers_fence_before_they_look_for_the_log() -> AbstractContextManager[object]:
    """They take the epoch, and find out afterwards that they cannot replay."""
    return edited(DatabaseFiles, "check_log", "while manifest.needed_wal_ids:", "while False:")


@contextmanager
def gaps_filled_with_fences() -> Iterator[None]:
    """A gap in what the manifest needs is closed by an empty file, as one behind it is."""
    with writers_fence_before_they_look_for_the_log(), edited(fencing, "fence_log", "next_id in needed:", "False:"):
        yield


def ids_run_ahead() -> AbstractContextManager[object]:
    async def whenever_few_are_under_way(self: WalWriter) -> None:
        while len(self._under_way) >= self._max_parallel:
            self._moved.clear()
            await self._moved.wait()

    return mock.patch.object(WalWriter, "_until_in_window", whenever_few_are_under_way)


# --- replay and flush ------------------------------------------------------------------------------------------------


def replay_after_too_far_while_replaying() -> AbstractContextManager[object]:
    def last_stored(self: Writer) -> int:
        return self._wal.last_stored_id if self._wal is not None else self.state.manifest.replay_after_wal_id

    return mock.patch.object(Writer, "_replay_after", last_stored)


@contextmanager
def commits_torn_at_replay() -> Iterator[None]:
    """A memtable ends as soon as it is full, also amid a commit, of which there are two who take care."""
    ends = "np.flatnonzero(np.diff(rows.seq[start:])) + 1"
    with (
        edited(Memtable, "take_commits", ends, "np.arange(1, len(rows) - start)"),
        edited(Writer, "_take_replayed", " and self.state.active.last_seq != int(rows.seq[start])", ""),
    ):
        yield


def replayed_although_in_level_0() -> AbstractContextManager[object]:
    return mock.patch.object(replay, "newer_than", lambda rows, seq: rows)


def sequence_numbers_begin_again() -> AbstractContextManager[object]:
    """They go on from what is in level 0, whatever the log holds."""
    return edited(Writer, "_take_replayed", "self._last_seq = max(self._last_seq, int(rows.seq.max()))", "pass")


@contextmanager
def flushed_rows_stay_in_memory() -> Iterator[None]:
    """A poll may be the first to find the manifest of our own flush."""
    adopt = Writer.adopt

    async def refresh(self: Writer) -> None:
        newest = await self._files.manifests.read_latest()
        self.check_epoch(newest.value)
        if newest.id > self.state.manifest_id:
            self.state = replace(
                self.state.under(newest.id, newest.value, self._files.tables), frozen=self.state.frozen
            )

    def adopt_again(self: Writer, manifest_id: int, manifest: Manifest) -> None:
        if manifest_id == self.state.manifest_id:
            self.state = replace(self.state, manifest_id=manifest_id - 1)
        adopt(self, manifest_id, manifest)

    with mock.patch.object(Writer, "refresh", refresh), mock.patch.object(Writer, "adopt", adopt_again):
        yield


def snapshots_not_retained() -> AbstractContextManager[object]:
    return mock.patch.object(Writer, "retained_seq", lambda self, otherwise: otherwise)


# --- lost answers and boundaries -------------------------------------------------------------------------------------


def lost_answer_counts_as_success() -> AbstractContextManager[object]:
    put = RetryingStore.put

    async def trusting(self: RetryingStore, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        try:
            return await self._backend.put(key, data, mode, mark="")
        except StoreUnavailable as error:
            if error.unknown_outcome:
                return ""
        return await put(self, key, data, mode)

    return mock.patch.object(RetryingStore, "put", trusting)


def lost_answer_settled_by_bytes() -> AbstractContextManager[object]:
    put = RetryingStore.put

    async def comparing(self: RetryingStore, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        try:
            return await put(self, key, data, mode)
        except Conflict:
            found = await self.get(key)
            if bytes(found.data) == bytes(data):
                return found.meta.etag
            raise

    return mock.patch.object(RetryingStore, "put", comparing)


def lost_answer_counts_as_conflict() -> AbstractContextManager[object]:
    """A second attempt finds the first one's object in its way, and takes it for somebody else's."""

    def refused_is_lost(found: Any, mark: str, mode: PutMode, *, refused: bool, lost: bool) -> Verdict:
        return Verdict.LOST if refused else judge(found, mark, mode, refused=refused, lost=lost)

    return mock.patch.object(retry, "judge", refused_is_lost)


def sst_ids_follow_the_clock() -> AbstractContextManager[object]:
    """Of a clock that may have been set back: the id may be older than what level 0 shows."""
    new = Ulid.new

    def by_the_clock(runtime: Any, floor_ms: int = 0) -> Ulid:
        return new(runtime, 0)

    return mock.patch.object(flusher, "Ulid", mock.Mock(new=by_the_clock))


def boundary_not_looked_at() -> AbstractContextManager[object]:
    """Nor at what the commit follows, which tells the same where it is gone."""

    async def never(*arguments: Any) -> int:
        return 0

    return mock.patch.multiple(NumberedObjects, _confirm=never, _overtaken=never)


# --- memory and transactions -----------------------------------------------------------------------------------------


def waiters_forget_to_freeze() -> AbstractContextManager[object]:
    async def wait(self: Writer) -> None:
        self.freeze()
        await self.until(lambda: self._error is not None or not self._must_wait())

    return mock.patch.object(Writer, "_wait_for_room", wait)


def reads_not_checked() -> AbstractContextManager[object]:
    conflict = Transactions.conflict

    def writes_only(self: Transactions, transaction: Transaction) -> bytes | None:
        return conflict(self, Transaction(transaction.started_seq, transaction.writes))

    return mock.patch.object(Transactions, "conflict", writes_only)


def writes_not_checked() -> AbstractContextManager[object]:
    return mock.patch.object(Transactions, "conflict", return_value=None)
