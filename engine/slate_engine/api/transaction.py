"""Transactions: reads of one moment and writes that are committed together, if nobody was faster."""

from __future__ import annotations

import weakref
from collections.abc import Iterable

from slate_engine.api import arguments
from slate_engine.api.building import instance
from slate_engine.api.changes import Changes
from slate_engine.api.enums import IsolationLevel
from slate_engine.api.handle import WriteHandle
from slate_engine.api.live import Moment, check_open
from slate_engine.api.options import MergeOptions, PutOptions, WriteOptions
from slate_engine.api.reads import Readable, View
from slate_engine.api.scanning import Renewal, Scannable
from slate_engine.errors import InvalidError
from slate_engine.format.columns import EMPTY
from slate_engine.format.key_range import KeyRange as EngineRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.overlay import Overlay, PendingWrites
from slate_engine.lsm.transactions import Transaction
from slate_engine.lsm.writer import Writer


class DbTransaction(Readable):
    """Sees the database as it was when the transaction began, and its own writes. It ends by ``commit`` or ``rollback``;
    one that is thrown away without either is rolled back.

    Isolation ``SNAPSHOT`` loses against others that wrote the same keys, ``SERIALIZABLE_SNAPSHOT`` also against those that
    wrote what it read.
    """

    _writer: Writer
    _changes: Changes
    _transaction: Transaction
    _tracks_reads: bool
    _id: str
    _moment: Moment
    _pending: PendingWrites | None
    """None when the transaction has ended."""

    @classmethod
    def of(cls, writer: Writer, changes: Changes, level: IsolationLevel, id: str) -> DbTransaction:
        made = cls.__new__(cls)
        made._writer, made._changes, made._id = writer, changes, id
        made._transaction = writer.begin()
        made._moment = Moment(writer, made._transaction.started_seq)
        made._tracks_reads = level is IsolationLevel.SERIALIZABLE_SNAPSHOT
        made._pending = PendingWrites()
        weakref.finalize(made, writer.abandon, made._transaction)
        return made

    def id(self) -> str:
        """A UUID by which logs can tell transactions apart."""
        return self._id

    def seqnum(self) -> int:
        """The sequence number whose state the transaction sees."""
        return self._transaction.started_seq

    # --- writing -------------------------------------------------------------------------------------------------

    async def put(self, key: bytes, value: bytes) -> None:
        self._add(self._changes.put(key, value))

    async def put_with_options(self, key: bytes, value: bytes, options: PutOptions) -> None:
        self._add(self._changes.put(key, value, instance(options, PutOptions, "options")))

    async def merge(self, key: bytes, operand: bytes) -> None:
        self._add(self._mergeable(self._changes.merge(key, operand)))

    async def merge_with_options(self, key: bytes, operand: bytes, options: MergeOptions) -> None:
        self._add(self._mergeable(self._changes.merge(key, operand, instance(options, MergeOptions, "options"))))

    async def delete(self, key: bytes) -> None:
        self._add(self._changes.delete(key))

    def _mergeable(self, change: Change) -> Change:
        if self._writer.operator is None:
            raise InvalidError(
                "Invalid error: merge operator missing. A merge operator is required to read merge operands: open the "
                "database with_merge_operator(...)"
            )
        return change

    def _add(self, change: Change) -> None:
        self._open().add(change)
        self._transaction.writes.add(change.key)

    # --- conflicts -----------------------------------------------------------------------------------------------

    async def mark_read(self, keys: list[bytes]) -> None:
        """Lose against others that write these keys, as if the transaction had read them."""
        marked = _all_keys(keys)
        self._open()
        self._transaction.reads.update(marked)

    async def unmark_write(self, keys: list[bytes]) -> None:
        """Do not lose against others that write these keys, although the transaction writes them."""
        unmarked = _all_keys(keys)
        self._open()
        self._transaction.writes.difference_update(unmarked)

    # --- the end -------------------------------------------------------------------------------------------------

    async def commit(self) -> WriteHandle | None:
        """Write everything at once; None if there was nothing to write. Raises ``Error.Transaction`` if the transaction has
        lost against another: then begin again."""
        return await self._commit(0)

    async def commit_with_options(self, options: WriteOptions) -> WriteHandle | None:
        seqnum = instance(options, WriteOptions, "options").seqnum
        return await self._commit(arguments.unsigned(seqnum, "seqnum"))

    async def _commit(self, seq: int) -> WriteHandle | None:
        pending, self._pending = self._open(), None
        try:
            check_open(self._writer)
            if pending.changes:
                return WriteHandle.of(await self._writer.write(pending.changes, seq=seq, transaction=self._transaction))
            self._writer.check_conflict(self._transaction)
            return None
        finally:
            self._end()

    async def rollback(self) -> None:
        """Forget everything."""
        self._open()
        self._pending = None
        self._end()

    def _end(self) -> None:
        self._writer.end(self._transaction)
        del self._moment  # scans that are still open have their own hold on it

    def _open(self) -> PendingWrites:
        if self._pending is None:
            raise InvalidError("transaction has already been completed")
        return self._pending

    # --- reading -------------------------------------------------------------------------------------------------

    def _view(self, durable_only: bool) -> View:
        return Overlay(self._seen_at(durable_only).view(), self._open(), EMPTY)

    def _scanned(self, durable_only: bool) -> tuple[Scannable, Renewal | None]:
        pending = self._open()
        writes, moment = pending.rows(), self._seen_at(durable_only)

        async def renewed() -> Scannable:
            return Overlay(await moment.renewed(), pending, writes)

        return Overlay(moment.view(), pending, writes), renewed

    def _seen_at(self, durable_only: bool) -> Moment:
        self._open()
        return self._moment.durable() if durable_only else self._moment

    async def _refresh(self) -> None:
        await self._writer.refresh()

    def _note_read(self, key: bytes) -> None:
        if self._tracks_reads:
            self._transaction.reads.add(key)

    def _note_scan(self, wanted: EngineRange) -> None:
        if self._tracks_reads:
            self._transaction.ranges.append(wanted)


def _all_keys(keys: Iterable[bytes]) -> set[bytes]:
    return {arguments.octets(key, "a key") for key in keys}
