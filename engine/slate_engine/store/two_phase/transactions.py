"""The transactional store: a small table of records with an atomic insert and an atomic compare-and-set.

Anything that is linearizable on a single row will do. :mod:`~slate_engine.store.two_phase.sql` has SQLite, MySQL, MariaDB
and PostgreSQL, :mod:`~slate_engine.store.two_phase.dynamodb` has DynamoDB.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Protocol

from slate_engine.store.two_phase.record import Record


class TransactionStore(Protocol):
    """Records by destination. Every read sees every write that was answered before it began.

    A call that fails raises ``StoreUnavailable``, with ``unknown_outcome`` when it may have changed something.
    """

    @property
    def url(self) -> str:
        """Where this is, for people and logs. Never holds credentials."""
        ...

    async def put_if_absent(self, record: Record) -> Record | None:
        """Store the record if its destination has none. Returns None, or else the record that stands in the way."""
        ...

    async def get(self, destination: str) -> Record | None: ...

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        """Replace the destination's record if its version is ``expected``, and say whether that was so."""
        ...

    def list(self, prefix: str, *, committed: bool) -> AsyncIterator[list[Record]]:
        """Pages of the records whose destination begins with ``prefix``, in no certain order: those in state COMMITTED,
        or all the others (which are few)."""
        ...

    async def delete(self, destinations: Iterable[str]) -> None:
        """Delete the records of all of these; one that has none counts as deleted."""
        ...

    async def delete_version(self, record: Record) -> bool:
        """Delete this record if it is still at this version, and say whether that was so."""
        ...

    async def close(self) -> None:
        """Give back connections. The store is not used afterwards."""
        ...
