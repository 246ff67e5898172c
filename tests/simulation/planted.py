"""Safety mechanisms switched off, one at a time: what a simulation that is worth anything must notice.

Each is a context manager that takes a mechanism out of the engine, as a programmer might who has not thought of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from typing import Any
from unittest import mock

from slate_engine.errors import Error
from slate_engine.lsm import fencing, replay
from slate_engine.lsm.committed import Commit
from slate_engine.lsm.fencing import Claim
from slate_engine.lsm.flusher import Flusher
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.transactions import Transaction, Transactions
from slate_engine.lsm.wal_writer import WalFile, WalWriter
from slate_engine.lsm.writer import Writer
from slate_engine.state.manifest import Manifest
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import OVERWRITE, Buffer, Conflict, PutMode, StoreUnavailable
from slate_engine.store.retry import RetryingStore

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
    async def only_look(tenure: Tenure) -> int:
        files = tenure.files
        manifest = (await files.manifests.read_latest()).value
        ids = await replay.wal_ids(files.store, files.paths, manifest.replay_after_wal_id)
        return max(ids, default=manifest.replay_after_wal_id)

    return mock.patch.object(fencing, "fence_log", only_look)


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


@contextmanager
def taken_id_counts_as_stored() -> Iterator[None]:
    store_file = WalWriter._store_file

    class Nobody(Error):
        pass

    async def nobody(self: Tenure, wal_id: int) -> Error:
        return Nobody("")

    async def lenient(self: WalWriter, id: int, file: WalFile) -> None:
        with suppress(Nobody):
            await store_file(self, id, file)

    with mock.patch.object(Tenure, "taken", nobody), mock.patch.object(WalWriter, "_store_file", lenient):
        yield


def id_used_again_after_a_failure() -> AbstractContextManager[object]:
    async def write(self: WalWriter, id: int, file: WalFile) -> None:
        try:
            await self._store.put(self._paths.wal(id), await self._encode(file.rows), self._tenure.create)
        except Conflict:
            self._failed(await self._tenure.taken(id))
        except StoreUnavailable as trouble:
            file.fail(trouble)
            del self._under_way[id]
            self._next_id = id
            self._moved.set()
        else:
            self._note_stored(id, file)

    return mock.patch.object(WalWriter, "_write", write)


def acknowledged_before_stored() -> AbstractContextManager[object]:
    async def at_once(self: Commit) -> None:
        return None

    return mock.patch.object(Commit, "durable", at_once)


def gaps_overlooked() -> AbstractContextManager[object]:
    def note_stored(self: WalWriter, id: int, file: WalFile) -> None:
        del self._under_way[id]
        self.last_stored_id = max(self.last_stored_id, id)
        self.durable_seq = max(self.durable_seq, file.last_seq)
        self._moved.set()
        if not file.stored.done():
            file.stored.set_result(None)
        self._advanced()

    return mock.patch.object(WalWriter, "_note_stored", note_stored)


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


def commits_torn_at_replay() -> AbstractContextManager[object]:
    def row_by_row(self: Writer, rows: Sequence[Row]) -> None:
        self._replaying = True
        for row in rows:
            self.state.active.insert([row])
            if self.state.active.payload_bytes >= self._options.l0_sst_size_bytes:
                self.freeze()
        self._replaying = False

    return mock.patch.object(Writer, "_take_replayed", row_by_row)


def replayed_although_in_level_0() -> AbstractContextManager[object]:
    return mock.patch.object(replay, "newer_than", lambda rows, seq: rows)


def sequence_numbers_begin_again() -> AbstractContextManager[object]:
    init = Writer.__init__

    def forgetful(self: Writer, files: DatabaseFiles, options: Any, claim: Claim) -> None:
        init(self, files, options, claim)
        self._last_seq = claim.manifest.last_l0_seq

    return mock.patch.object(Writer, "__init__", forgetful)


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


def boundary_not_looked_at() -> AbstractContextManager[object]:
    async def never(key: str, boundary: Any) -> int:
        return 0

    return mock.patch.object(NumberedObjects, "_confirm", staticmethod(never))


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
