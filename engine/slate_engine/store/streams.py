"""The parts of a multipart upload: cut from a stream of chunks, and sent several at a time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TypeVar

from slate_engine.store.protocol import Buffer

T = TypeVar("T")
PART = 8 << 20
"""10,000 parts is what services allow, so this is good for 80 GB; some dialects want all parts but the last equally long."""
AT_ONCE = 4


async def parts_of(chunks: AsyncIterable[Buffer], size: int = PART) -> AsyncIterator[bytes]:
    """The same bytes in parts of exactly ``size``, but for the last; no part when there are no bytes."""
    held: list[Buffer] = []
    length = 0
    async for chunk in chunks:
        rest = memoryview(chunk).cast("B")
        while length + len(rest) >= size:
            cut = size - length
            yield b"".join([*held, rest[:cut]])
            held, length, rest = [], 0, rest[cut:]
        if rest:
            # Copied, for the producer may use its buffer again.
            held.append(bytes(rest))
            length += len(rest)
    if held:
        yield b"".join(held)


async def send_parts(parts: AsyncIterable[bytes], send: Callable[[int, bytes], Awaitable[T]]) -> list[T]:
    """``send(number, part)`` for each part, numbered from 1, a few at once; the answers in order of the parts."""
    tasks: list[asyncio.Task[T]] = []
    slots = asyncio.Semaphore(AT_ONCE)

    async def send_one(number: int, part: bytes) -> T:
        try:
            return await send(number, part)
        finally:
            slots.release()

    try:
        async for part in parts:
            await slots.acquire()
            if failed := next((task for task in tasks if task.done() and task.exception()), None):
                failed.result()
            tasks.append(asyncio.create_task(send_one(len(tasks) + 1, part)))
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
