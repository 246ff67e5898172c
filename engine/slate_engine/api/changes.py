"""From the writes that a caller asks for to those that the engine commits."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.batch import Operation, time_to_live
from slate_engine.api.choices import Ttl
from slate_engine.api.enums import RowEntryKind
from slate_engine.api.options import MergeOptions, PutOptions
from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change
from slate_engine.lsm.undisturbed import undisturbed

_FLAGS = {RowEntryKind.VALUE: 0, RowEntryKind.TOMBSTONE: TOMBSTONE, RowEntryKind.MERGE: MERGE}


class Changes:
    """Makes changes that live as long as their options and the database's default say."""

    def __init__(self, default_ttl_ms: int | None) -> None:
        self.default_ttl_ms = default_ttl_ms

    def put(self, key: bytes, value: bytes, options: PutOptions | None = None) -> Change:
        found = arguments.key(key), arguments.value(value)
        return self._living(*found, 0, None if options is None else time_to_live(options))

    def merge(self, key: bytes, operand: bytes, options: MergeOptions | None = None) -> Change:
        found = arguments.key(key), arguments.value(operand, "an operand")
        return self._living(*found, MERGE, None if options is None else time_to_live(options))

    def delete(self, key: bytes) -> Change:
        return Change(arguments.key(key), b"", TOMBSTONE)

    def all_of(self, operations: list[Operation]) -> list[Change]:
        """The operations of a batch, which have been checked."""
        new, ttl_ms, put = tuple.__new__, self.default_ttl_ms, RowEntryKind.VALUE
        with undisturbed(len(operations)):
            return [
                # Plain puts, which most are, without a call for each.
                new(Change, (key, value, 0, ttl_ms, None))
                if kind is put and ttl is None
                else self._change(key, value, kind, ttl)
                for key, value, kind, ttl in operations
            ]

    def _change(self, key: bytes, value: bytes | None, kind: RowEntryKind, ttl: Ttl | None) -> Change:
        if kind is RowEntryKind.TOMBSTONE:
            return Change(key, b"", TOMBSTONE)
        return self._living(key, value or b"", _FLAGS[kind], ttl)

    def _living(self, key: bytes, value: bytes, flags: int, ttl: Ttl | None) -> Change:
        if ttl is None:
            return Change(key, value, flags, self.default_ttl_ms)
        if isinstance(ttl, Ttl.EXPIRE_AT_MILLIS):
            return Change(key, value, flags, None, ttl[0])
        return Change(key, value, flags, ttl[0] if isinstance(ttl, Ttl.EXPIRE_AFTER_MILLIS) else None)
