"""A scan that outlives the objects it began with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from slate_engine.errors import DataError
from slate_engine.format.columns import Rows
from slate_engine.format.key_range import Bound, KeyRange
from slate_engine.lsm.snapshot import PARTS_AHEAD
from slate_engine.store.protocol import NotFound


class Scannable(Protocol):
    """A state of the database, as far as a scan needs it."""

    def scan(
        self,
        wanted: KeyRange,
        *,
        values: bool = True,
        descending: bool = False,
        parts: Sequence[int],
        ahead: int = PARTS_AHEAD,
        prefix: bytes | None = None,
    ) -> AsyncIterator[Rows]: ...


Renewal: TypeAlias = Callable[[], Awaitable[Scannable]]
"""Gives the state that a scan sees, in the objects that hold it now."""


@dataclass(frozen=True)
class Scan:
    """What to scan, and how. ``renew`` gives the same rows from newer objects, where those of ``view`` may be deleted
    meanwhile: a compaction replaces them, and a collector does not know of this scan."""

    view: Scannable
    parts: Sequence[int]
    descending: bool = False
    values: bool = True
    renew: Renewal | None = None
    ahead: int = PARTS_AHEAD
    """So many parts are fetched while one is used."""
    prefix: bytes | None = None
    """What all keys begin with, for those filters that can tell."""

    async def rows(self, wanted: KeyRange) -> AsyncIterator[Rows]:
        """The rows of ``wanted``, some at a time."""
        view = self.view
        missing: set[str] = set()
        while True:
            try:
                batches = view.scan(
                    wanted,
                    values=self.values,
                    descending=self.descending,
                    parts=self.parts,
                    ahead=self.ahead,
                    prefix=self.prefix,
                )
                async for rows in batches:
                    yield rows
                    wanted = self.beyond(wanted, rows.keys[len(rows) - 1])
                return
            except NotFound as gone:
                if self.renew is None or gone.key in missing:
                    raise deleted(gone) from gone
                missing.add(gone.key)
                view = await self.renew()

    def beyond(self, wanted: KeyRange, key: bytes) -> KeyRange:
        """What is left of ``wanted`` behind ``key``."""
        if self.descending:
            return KeyRange(wanted.start, Bound.excluded(key))
        return KeyRange(Bound.excluded(key), wanted.end)


def deleted(gone: NotFound) -> DataError:
    """The error for a read whose object is not there any more."""
    return DataError(
        f"Data error: object store error (object {gone.key} not found): it was deleted while it was being read; begin the "
        "read again, read at a checkpoint, or let the garbage collector keep objects for longer"
    )
