"""How a command ends: the exit codes, and which error gives which."""

from __future__ import annotations

from slate_engine.errors import ClosedError, DataError, Error, InternalError, InvalidError, UnavailableError

EXIT_CODES = {
    0: "done",
    1: "refused: it cannot be done to this database as it is; the message says what to do",
    2: "wrong usage of the command",
    3: "not found: there is no such key, database, checkpoint or object",
    4: "corrupt data: an object is not what it has to be, or a needed one is missing",
    5: "the store could not be reached, or did not permit it; trying again may help",
    6: "another process took the database over while the command was writing it",
    70: "a defect of the command itself; SLATE_TRACE=1 shows where, please report it",
    130: "stopped by Ctrl-C; what was committed stays, and the database is sound",
}
"""Part of the interface: scripts rely on them."""

MISUSED, NOT_FOUND, CORRUPT, UNAVAILABLE, FENCED, DEFECT, STOPPED = 2, 3, 4, 5, 6, 70, 130


class Misused(InvalidError):
    """An option or argument is not what it has to be."""


class Unconfirmed(InvalidError):
    """The user was asked, and did not agree."""


class Absent(InvalidError):
    """What the user asked for is not there."""


def exit_code(error: Error) -> int:
    """The code for an error of the engine."""
    # Here and not above, because `slate --help` needs none of them.
    from slate_engine.admin.lifetimes import NotASpan
    from slate_engine.state.checkpoints import CheckpointMissing
    from slate_engine.state.commit import NothingStored
    from slate_engine.store.protocol import Denied, NotFound

    match error:
        case Misused() | NotASpan():
            return MISUSED
        case Absent() | NothingStored() | CheckpointMissing():
            return NOT_FOUND
        case DataError() | NotFound():
            return CORRUPT
        case UnavailableError() | Denied():
            return UNAVAILABLE
        case InternalError():
            return DEFECT
        case ClosedError():
            return FENCED
        case _:
            return 1
