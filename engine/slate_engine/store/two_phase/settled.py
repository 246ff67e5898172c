"""Calls to a transactional store, tried again when they fail, and settled when their answer was lost.

An insert or a compare-and-set may be carried out although its answer never arrives. The second attempt then finds the
first one's record in its way. Every write has a version of its own, so the record says whose it is: ours means that we
won. For an immutable object anybody else's means that we lost, because a record that is there keeps all others out. For a
mutable one it may be the successor of ours, and then nobody can tell: that is reported as an unknown outcome, neither
as a conflict nor as a success.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from slate_engine.runtime import Runtime
from slate_engine.store.protocol import StoreUnavailable
from slate_engine.store.two_phase.record import Record, State
from slate_engine.store.two_phase.transactions import TransactionStore

T = TypeVar("T")


class Settled:
    """The store behind it, with a bounded number of attempts and jittered back-off between them."""

    def __init__(
        self, inner: TransactionStore, runtime: Runtime, *, attempts: int = 8, first_delay: float = 0.05
    ) -> None:
        self._inner = inner
        self._runtime = runtime
        self._attempts = attempts
        self._first_delay = first_delay

    @property
    def url(self) -> str:
        return self._inner.url

    async def put_if_absent(self, record: Record) -> Record | None:
        standing, lost = await self._again(lambda: self._inner.put_if_absent(record))
        if standing is None or standing.version == record.version:
            return None
        if lost and record.state is not State.PENDING:
            raise self._unknown(record)
        return standing

    async def get(self, destination: str) -> Record | None:
        return (await self._again(lambda: self._inner.get(destination)))[0]

    async def compare_and_set(self, record: Record, *, expected: str) -> bool:
        done, lost = await self._again(lambda: self._inner.compare_and_set(record, expected=expected))
        if done or not lost or record.version == expected:
            return done
        standing = await self.get(record.destination)
        if standing is not None and standing.version == record.version:
            return True
        raise self._unknown(record)

    async def list(self, prefix: str, *, committed: bool) -> AsyncIterator[list[Record]]:
        async def whole() -> list[list[Record]]:
            return [page async for page in self._inner.list(prefix, committed=committed)]

        pages, _ = await self._again(whole)
        for page in pages:
            yield page

    async def delete(self, destinations: Iterable[str]) -> None:
        listed = list(destinations)
        await self._again(lambda: self._inner.delete(listed))

    async def delete_version(self, record: Record) -> bool:
        done, lost = await self._again(lambda: self._inner.delete_version(record))
        # Versions are never used twice: if it is gone after an attempt of ours, it does not matter whose attempt it was.
        return done or lost

    async def close(self) -> None:
        await self._inner.close()

    async def _again(self, call: Callable[[], Awaitable[T]]) -> tuple[T, bool]:
        """The call's answer, and whether an earlier attempt may have been carried out without one."""
        lost = False
        delay = self._first_delay
        for attempt in range(1, self._attempts + 1):
            try:
                return await call(), lost
            except StoreUnavailable as failure:
                lost = lost or failure.unknown_outcome
                if not failure.retryable or attempt == self._attempts:
                    raise StoreUnavailable(
                        failure.message, retryable=failure.retryable, unknown_outcome=lost
                    ) from failure
            await self._runtime.sleep(self._runtime.uniform(delay / 2, delay))
            delay = min(delay * 2, 5.0)
        raise AssertionError("the loop returns or raises")

    def _unknown(self, record: Record) -> StoreUnavailable:
        return StoreUnavailable(
            f"the answer to a write of {record.destination} was lost, and its record in {self.url} has changed since; "
            "read the object and decide anew",
            unknown_outcome=True,
        )
