"""What a write answers with."""

from __future__ import annotations

from copy import copy

from slate_engine.api.building import Unmade
from slate_engine.errors import ClosedError
from slate_engine.lsm.committed import Commit


class WriteHandle(Unmade):
    """A write that everybody sees already, and that becomes durable."""

    _commit: Commit

    @classmethod
    def of(cls, commit: Commit) -> WriteHandle:
        made = cls.__new__(cls)
        made._commit = commit
        return made

    def seqnum(self) -> int:
        """The sequence number of all that was written at once."""
        return self._commit.seq

    def create_ts(self) -> int:
        """When it was written, in milliseconds of the unix epoch."""
        return self._commit.create_ts

    async def await_durable(self) -> None:
        """Wait until the object store holds it. Raises if it never will."""
        try:
            await self._commit.durable()
        except ClosedError as error:
            raise copy(error) from error
