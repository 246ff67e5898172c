"""Objects copied from one name to another, many at a time: by the service itself inside one store, else by streaming."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from slate_engine.errors import DataError
from slate_engine.store.protocol import Buffer, NotFound, ObjectStore

AT_ONCE = 16
CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Transfer:
    """One object, and where it is to go."""

    source: ObjectStore
    key: str
    target: ObjectStore
    destination: str


async def carry_out(transfers: Sequence[Transfer], done: Callable[[], None] = lambda: None) -> None:
    """Make all the copies; ``done`` is told of each. The first that fails ends the others."""
    left = iter(transfers)

    async def work(left: Iterator[Transfer]) -> None:
        for transfer in left:
            await _copy(transfer)
            done()

    await _together(work(left) for _ in range(min(AT_ONCE, len(transfers))))


async def _together(works: Iterator[Coroutine[Any, Any, None]]) -> None:
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.gather(*tasks)
    finally:
        # Whoever goes on with another plan must not meet copies of this one.
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _copy(transfer: Transfer) -> None:
    try:
        if transfer.source is transfer.target:
            await transfer.source.copy(transfer.key, transfer.destination)
        else:
            await transfer.target.put_stream(transfer.destination, _chunks(transfer.source, transfer.key))
    except NotFound:
        raise DataError(
            f"{transfer.key} is needed for {transfer.destination}, but does not exist any more; take another checkpoint"
        ) from None


async def _chunks(store: ObjectStore, key: str) -> AsyncIterator[Buffer]:
    size = (await store.head(key)).size
    for start in range(0, size, CHUNK):
        yield (await store.get_ranges(key, [(start, min(start + CHUNK, size))]))[0]
