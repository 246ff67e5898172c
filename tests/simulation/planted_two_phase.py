"""Two-phase writes without one of their steps, or with two of them the wrong way round."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any
from unittest import mock

from slate_engine.store.protocol import CREATE, Buffer, Conflict, ObjectMeta
from slate_engine.store.two_phase import TwoPhaseStore, recovery
from slate_engine.store.two_phase.record import Record, intent
from slate_engine.store.two_phase.settled import Settled
from slate_engine.store.two_phase.site import Site


def readers_believe_the_bucket() -> AbstractContextManager[object]:
    """What is decided and not copied yet does not exist for them."""

    async def read(self: TwoPhaseStore, key: str, read: Callable[[str], Awaitable[Any]]) -> Any:
        return await read(key)

    async def listed(self: TwoPhaseStore, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        async for page in self._objects.list(prefix, start_after=start_after):
            yield page

    both = ExitStack()
    both.enter_context(mock.patch.object(TwoPhaseStore, "_read", read))
    both.enter_context(mock.patch.object(TwoPhaseStore, "list", listed))
    return both


def recorded_before_it_is_put() -> AbstractContextManager[object]:
    """A crash in between leaves a name that nobody can use and nobody can read."""

    async def create(self: TwoPhaseStore, key: str, data: Buffer) -> str:
        record = intent(self._site.name(key), data, self._runtime)
        if await self._transactions.put_if_absent(record) is not None:
            raise Conflict(key, CREATE)
        etag = await self._objects.put(self._site.key(record.source), data)
        return await recovery.finish(self._site, record, data) or etag

    return mock.patch.object(TwoPhaseStore, "_create", create)


def committed_before_it_is_copied() -> AbstractContextManager[object]:
    finish = recovery.finish

    async def hasty(site: Site, record: Record, data: Buffer | None = None) -> str | None:
        if not await site.transactions.compare_and_set(record.committed(), expected=record.version):
            return None
        return await finish(site, record, data)

    return mock.patch.object(recovery, "finish", hasty)


def everybody_wins() -> AbstractContextManager[object]:
    """A record that stands in the way is written over."""
    insert = Settled.put_if_absent

    async def overwrite(self: Settled, record: Record) -> Record | None:
        standing = await insert(self, record)
        if standing is not None:
            await self.compare_and_set(record, expected=standing.version)
        return None

    return mock.patch.object(Settled, "put_if_absent", overwrite)


def lost_insert_counts_as_conflict() -> AbstractContextManager[object]:
    async def insert(self: Settled, record: Record) -> Record | None:
        return (await self._again(lambda: self._inner.put_if_absent(record)))[0]

    return mock.patch.object(Settled, "put_if_absent", insert)
