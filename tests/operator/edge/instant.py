"""Databases that answer at once, for tests and benchmarks of what the operator does with the API server.

They stand for the admin API only in so far as it is always there and always agrees. What it really says is tested with the
real one.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from slate_operator.admin.database import CheckpointFacts, CompactionFacts, DatabaseFacts, OperationFacts, Owner
from slate_operator.api.database import SlateDatabase

BEGINNING = 1_700_000_000
"""When everything was made: no answer depends on when it is asked for."""


class InstantAdmin:
    """``everything``: every checkpoint that is asked for is there, as after a restart of the operator."""

    def __init__(self, path: str, everything: bool) -> None:
        self._path = path
        self._everything = everything
        self._owner: Owner | None = None
        self._checkpoints: dict[str, CheckpointFacts] = {}
        self.asked = 0

    async def status(self) -> DatabaseFacts:
        self.asked += 1
        checkpoints = tuple(self._checkpoints.values())
        return DatabaseFacts(self._path, "alive", None, 7, 1, 1, 2, 3, 1 << 30, 0.02, checkpoints)

    async def claim(self, owner: Owner, expect: str, instead_of: str | None = None) -> None:
        self.asked += 1
        self._owner = owner

    async def owner(self) -> Owner | None:
        self.asked += 1
        return self._owner

    async def release(self, owner: Owner) -> None:
        self.asked += 1
        self._owner = None

    async def checkpoint(self, id: str) -> CheckpointFacts | None:
        self.asked += 1
        made = CheckpointFacts(id, None, 7, BEGINNING, None) if self._everything else None
        return self._checkpoints.get(id, made)

    async def put_checkpoint(
        self, id: str, *, lifetime_s: float | None, name: str | None, source: str | None
    ) -> CheckpointFacts:
        self.asked += 1
        until = None if lifetime_s is None else int(time.time() + lifetime_s)
        made = CheckpointFacts(id, name, 7, BEGINNING, until)
        return self._checkpoints.setdefault(id, made)

    async def refresh_checkpoint(self, id: str, lifetime_s: float | None) -> CheckpointFacts:
        self.asked += 1
        until = None if lifetime_s is None else int(time.time() + lifetime_s)
        self._checkpoints[id] = replace(self._checkpoints[id], expires_at_s=until)
        return self._checkpoints[id]

    async def delete_checkpoint(self, id: str) -> None:
        self.asked += 1
        self._checkpoints.pop(id, None)

    async def is_destroying(self) -> bool:
        self.asked += 1
        return False

    async def pinned_bytes(self) -> Mapping[str, int]:
        self.asked += 1
        return dict.fromkeys(self._checkpoints, 1 << 20)

    async def compactions(self) -> Sequence[CompactionFacts]:
        self.asked += 1
        return ()

    async def put_operation(self, id: str, work: Mapping[str, Any]) -> OperationFacts:
        self.asked += 1
        return OperationFacts(id, "succeeded")

    async def operation(self, id: str) -> OperationFacts | None:
        self.asked += 1
        return OperationFacts(id, "succeeded")

    async def flush(self, *, to_ssts: bool) -> None:
        self.asked += 1


class InstantDatabases:
    def __init__(self, everything: bool = False) -> None:
        self._everything = everything
        self._admins: dict[str, InstantAdmin] = {}

    @property
    def asked(self) -> int:
        """How many questions all of them were asked."""
        return sum(admin.asked for admin in self._admins.values())

    def admin(self, database: SlateDatabase) -> InstantAdmin:
        url = database.spec.store.url
        return self._admins.setdefault(url, InstantAdmin(url, self._everything))
