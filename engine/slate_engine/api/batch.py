"""A batch of writes that becomes visible, and durable, as one."""

from __future__ import annotations

from typing import TypeAlias

from slate_engine.api import arguments
from slate_engine.api.choices import Ttl
from slate_engine.api.enums import RowEntryKind
from slate_engine.api.options import MergeOptions, PutOptions
from slate_engine.errors import InvalidError

Operation: TypeAlias = "tuple[bytes, bytes | None, RowEntryKind, Ttl | None]"
"""Key, value (``None`` to delete), kind and time to live (``None``: the default). ``zip(*operations)`` makes columns."""

_CONSUMED = "write batch has already been consumed"
_PUT, _DELETE, _MERGE = RowEntryKind.VALUE, RowEntryKind.TOMBSTONE, RowEntryKind.MERGE


class WriteBatch:
    """Writes in the order in which they were added; used once.

    A put or delete of a key undoes what the batch did to that key before, a merge builds on it. All of it gets one
    sequence number.
    """

    def __init__(self) -> None:
        self._operations: list[Operation] | None = []

    def put(self, key: bytes, value: bytes) -> None:
        operation = (arguments.key(key), arguments.value(value), _PUT, None)
        if self._operations is None:
            raise InvalidError(_CONSUMED)
        self._operations.append(operation)

    def put_with_options(self, key: bytes, value: bytes, options: PutOptions) -> None:
        self._add((arguments.key(key), arguments.value(value), _PUT, time_to_live(options)))

    def merge(self, key: bytes, operand: bytes) -> None:
        self._add((arguments.key(key), arguments.value(operand, "an operand"), _MERGE, None))

    def merge_with_options(self, key: bytes, operand: bytes, options: MergeOptions) -> None:
        self._add((arguments.key(key), arguments.value(operand, "an operand"), _MERGE, time_to_live(options)))

    def delete(self, key: bytes) -> None:
        self._add((arguments.key(key), None, _DELETE, None))

    def take(self) -> list[Operation]:
        """The operations, for the one write that consumes the batch. It stays consumed even if that write fails."""
        operations, self._operations = self._operations, None
        if operations is None:
            raise InvalidError(_CONSUMED)
        if not operations:
            raise InvalidError("Invalid error: empty write batch not allowed; add a put, delete or merge first")
        return operations

    def _add(self, operation: Operation) -> None:
        if self._operations is None:
            raise InvalidError(_CONSUMED)
        self._operations.append(operation)


def time_to_live(options: PutOptions | MergeOptions) -> Ttl | None:
    """The time to live that the options ask for, checked; ``None`` for the database's default."""
    if not isinstance(options, PutOptions | MergeOptions):
        raise TypeError(f"options must be PutOptions or MergeOptions, not {type(options).__name__!r}")
    ttl = options.ttl
    if isinstance(ttl, Ttl.DEFAULT):
        return None
    if isinstance(ttl, Ttl.EXPIRE_AFTER_MILLIS):
        arguments.unsigned(ttl[0], "a time to live in milliseconds")
    elif isinstance(ttl, Ttl.EXPIRE_AT_MILLIS):
        arguments.signed(ttl[0], "an expiry time in milliseconds")
    elif not isinstance(ttl, Ttl.NO_EXPIRY):
        raise TypeError(f"ttl must be a Ttl such as Ttl.NO_EXPIRY(), not {type(ttl).__name__!r}")
    return ttl
