"""Merging: how an application combines operands with the value of a key."""

from __future__ import annotations

from typing import ClassVar


class MergeOperatorCallbackError(Exception):
    """What a merge operator raises to say that it cannot merge; the operation fails with ``Error.Invalid``."""

    Failed: ClassVar[type[_Failed]]


class _Failed(MergeOperatorCallbackError):
    """The merge failed, with a message of the application's own."""

    __qualname__ = "MergeOperatorCallbackError.Failed"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


MergeOperatorCallbackError.Failed = _Failed


class MergeOperator:
    """To be implemented by the application.

    Merging must be associative: the database may combine operands with each other (then ``existing_value`` is the earlier
    operand, or ``None`` for the first) before it combines the outcome with a value. It may be called from any thread.
    """

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        """The value that ``operand`` makes of ``existing_value``, which is ``None`` where the key has none."""
        raise NotImplementedError
