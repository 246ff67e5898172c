"""All commands, and the one that a request names."""

from __future__ import annotations

from slate_engine.server.resp.command import TABLE, Command, text
from slate_engine.server.resp.commands import (
    clients,
    connection,
    expiry,
    introspection,
    iteration,
    keys,
    slate,
    strings,
    transactions,
)
from slate_engine.server.resp.replies import CommandError

MODULES = (clients, connection, expiry, introspection, iteration, keys, slate, strings, transactions)
"""Importing them has entered their commands in the table."""


def find(request: list[bytes]) -> Command:
    """The command that a request names, if it names one and gives it the right number of arguments."""
    found = TABLE.get(request[0]) or TABLE.get(request[0].upper())
    if found is None:
        raise unknown(request)
    found.check_arity(len(request))
    return found


def unknown(request: list[bytes]) -> CommandError:
    shown = "".join(f"'{text(word)}' " for word in request[1:21])
    return CommandError(f"ERR unknown command '{text(request[0])}', with args beginning with: {shown[:128]}")


__all__ = ["MODULES", "TABLE", "find"]
