"""The errors of the engine: one tree, the same variants as the wheel's ``slatedb.uniffi.Error``.

Catch :class:`Error` for everything, ``Error.Data`` (and so on) for one kind. The more precise classes below them say what
happened and carry the facts a program needs to decide; the message says what a person should do next.
"""

from __future__ import annotations

import enum
from typing import ClassVar


class CloseReason(enum.Enum):
    """Why a database handle does not work any more."""

    CLEAN = 0
    FENCED = 1
    PANIC = 2
    UNKNOWN = 3


class Error(Exception):
    """Anything the engine raises on purpose."""

    Transaction: ClassVar[type[TransactionError]]
    Closed: ClassVar[type[ClosedError]]
    Unavailable: ClassVar[type[UnavailableError]]
    Invalid: ClassVar[type[InvalidError]]
    Data: ClassVar[type[DataError]]
    Internal: ClassVar[type[InternalError]]

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process boundaries (Spark executors); the default would call the class with its message alone.
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(cls: type[Error], args: tuple[object, ...], state: dict[str, object]) -> Error:
    error = cls.__new__(cls, *args)
    error.__dict__.update(state)
    return error


class TransactionError(Error):
    """A transaction lost against a concurrent one; begin again."""


class ClosedError(Error):
    """The database handle is closed; ``reason`` says why (fenced by a newer writer, for one)."""

    def __init__(self, message: str, reason: CloseReason = CloseReason.UNKNOWN) -> None:
        super().__init__(message)
        self.reason = reason


class UnavailableError(Error):
    """The object store (or something else outside) did not do its part; trying later may help."""


class InvalidError(Error):
    """The request makes no sense as it stands: an argument, a setting, the state of the database."""


class DataError(Error):
    """Bytes in storage are not what they have to be."""


class InternalError(Error):
    """A defect of the engine itself."""


Error.Transaction = TransactionError
Error.Closed = ClosedError
Error.Unavailable = UnavailableError
Error.Invalid = InvalidError
Error.Data = DataError
Error.Internal = InternalError


class CorruptData(DataError):
    """An object does not decode. Names the object, the byte offset in it, and what was found there."""

    def __init__(self, reason: str, *, object: str = "", offset: int = 0) -> None:
        super().__init__(f"corrupt data in {object or 'buffer'} at byte {offset}: {reason}")
        self.reason = reason
        self.object = object
        self.offset = offset


class UnsupportedFormat(DataError):
    """The object is well formed but of a version or kind that this engine does not know."""


class Fenced(ClosedError):
    """A newer writer has taken the database over; this one must not write any more, and nothing of it will be believed."""

    def __init__(self, message: str) -> None:
        super().__init__(f"Closed error: detected newer DB client: {message}", CloseReason.FENCED)


class DatabaseDeleted(Fenced):
    """The database was deleted for good while this process used it. Nothing that the process still has of it counts."""

    def __init__(self, path: str) -> None:
        ClosedError.__init__(
            self,
            f"Closed error: the database at {path!r} was deleted while this process used it; end the process. To open the "
            "path again creates a new, empty database",
            CloseReason.FENCED,
        )
