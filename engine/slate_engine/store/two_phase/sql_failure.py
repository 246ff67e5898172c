"""What went wrong at a SQL database, in the engine's own errors: one table for all drivers.

The drivers' exceptions are not chained to ours: some quote the whole connection string, with the password in it.
"""

from __future__ import annotations

from slate_engine.errors import Error, InvalidError
from slate_engine.store.protocol import Denied, StoreUnavailable

_MYSQL_DENIED = {1044, 1045, 1142, 1143, 1227, 1698}
_MYSQL_NO_DATABASE = 1049
_MYSQL_RETRY = {1040, 1053, 1203, 1205, 1213}
"""Too many connections, shutdown, user limit, lock wait, deadlock: nothing was done, later it may be."""
_MYSQL_CLIENT = range(2000, 3000)
"""The client's own codes: the connection broke or never came to be."""


def explain(error: BaseException, url: str, *, secret: object, write: bool) -> Error:
    """The error to raise. ``write`` says that a statement which changes something was on its way."""
    cause = getattr(error, "orig", None) or error
    text = str(cause).strip().split("\n", 1)[0]
    if secret:
        text = text.replace(str(secret), "***")
    where = f"the transactional store {url} failed: {type(cause).__name__} {text}".rstrip()
    state = getattr(cause, "sqlstate", None) or ""
    name = getattr(cause, "sqlite_errorname", None) or ""
    number = cause.args[0] if cause.args and isinstance(cause.args[0], int) and not isinstance(cause, OSError) else 0

    if state.startswith("28") or state == "42501" or number in _MYSQL_DENIED:
        return Denied(f"{where}; check user, password and rights")
    if state == "3D000" or number == _MYSQL_NO_DATABASE:
        return InvalidError(f"{where}; create the database first")
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")) or number in _MYSQL_RETRY or state[:2] in ("40", "53", "55"):
        return StoreUnavailable(where)
    if name.startswith(("SQLITE_CANTOPEN", "SQLITE_READONLY", "SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FULL")):
        return StoreUnavailable(f"{where}; check the file and its folder", retryable=False)
    if (number and number not in _MYSQL_CLIENT) or (state and state[:2] not in ("08", "57")):
        # The server itself refused the statement; sent again it would be refused again.
        return StoreUnavailable(where, retryable=False)
    return StoreUnavailable(where, unknown_outcome=write)
