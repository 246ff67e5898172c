"""What a caller holds of a commit: its number, its time, and the way to wait until it is in the store."""

from __future__ import annotations

import asyncio
from typing import Protocol

from slate_engine.lsm.wal_writer import WalFile


class Storing(Protocol):
    """The writer, as far as a commit needs it."""

    def wal_wanted(self, file: WalFile) -> None: ...

    async def flushed(self, seq: int) -> None: ...


class Commit:
    """A commit that is visible, and becomes durable."""

    def __init__(self, writer: Storing, seq: int, create_ts: int, file: WalFile | None) -> None:
        self.seq = seq
        self.create_ts = create_ts
        self._writer = writer
        self._file = file

    async def durable(self) -> None:
        """Wait until the commit is in the store. Raises if it never will be."""
        if self._file is not None:
            self._writer.wal_wanted(self._file)
            await asyncio.shield(self._file.stored)
        else:
            await self._writer.flushed(self.seq)
