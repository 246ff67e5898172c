"""A store that fails on purpose, for tests and simulations.

A fault strikes a call in one of three ways: *before* the call, so that nothing happens; *after* it, so that it was carried
out and only its answer is lost; or *late*: the caller is told that the connection broke, and the call is carried out some
time afterwards, like a request that was stuck in the network. Each is either scripted (the third PUT of a manifest) or
random with a given probability, drawn from the runtime.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from slate_engine.runtime import Runtime
from slate_engine.store.backend import Backend, Signed
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, PutMode, StoreUnavailable

T = TypeVar("T")
WRITES = frozenset({"put", "put_stream", "copy", "delete"})


class Strike(enum.Enum):
    BEFORE = "before"
    AFTER = "after"
    LATE = "late"
    DELAY = "delay"


@dataclass(slots=True)
class Fault:
    """Strikes the calls of ``operations`` (all, when empty) whose key ``matches``: those numbered in ``calls`` (from 1,
    counted per fault), or each with ``probability``, at most ``times`` times.

    ``seconds`` is how long the call is held up: before it is made (``DELAY``, ``BEFORE``, ``AFTER``), or for how long a
    ``LATE`` one stays in the network. ``error`` replaces the usual broken connection.
    """

    strike: Strike
    operations: frozenset[str] = frozenset()
    matches: Callable[[str], bool] = lambda key: True
    calls: frozenset[int] = frozenset()
    probability: float = 0.0
    times: int | None = None
    seconds: float = 0.0
    error: Callable[[str], Exception] | None = None
    _seen: int = field(default=0, init=False)
    _struck: int = field(default=0, init=False)

    def strikes(self, operation: str, key: str, runtime: Runtime) -> bool:
        if self.operations and operation not in self.operations:
            return False
        if not self.matches(key) or (self.times is not None and self._struck >= self.times):
            return False
        self._seen += 1
        struck = self._seen in self.calls or (self.probability > 0 and runtime.uniform(0, 1) < self.probability)
        self._struck += struck
        return struck


class FaultyStore:
    """The backend behind it, with ``faults``; the first that strikes decides. The list may be changed at any time."""

    def __init__(self, backend: Backend, runtime: Runtime, faults: Iterable[Fault] = ()) -> None:
        self._backend = backend
        self._runtime = runtime
        self.faults = list(faults)
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return self._backend.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._call("get", key, lambda: self._backend.get(key, if_none_match=if_none_match))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._call("get_ranges", key, lambda: self._backend.get_ranges(key, ranges))

    async def head(self, key: str) -> ObjectMeta:
        return await self._call("head", key, lambda: self._backend.head(key))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await self._call("put", key, lambda: self._backend.put(key, data, mode, mark=mark))

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer], *, mark: str = "") -> str:
        return await self._call("put_stream", key, lambda: self._backend.put_stream(key, chunks, mark=mark))

    async def read_mark(self, key: str) -> Signed:
        return await self._call("read_mark", key, lambda: self._backend.read_mark(key))

    async def copy(self, source: str, destination: str) -> None:
        await self._call("copy", destination, lambda: self._backend.copy(source, destination))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # Each page is a call of its own, so that a listing can break in the middle.
        pages = aiter(self._backend.list(prefix, start_after=start_after))
        while (page := await self._call("list", prefix, lambda: anext(pages, None))) is not None:
            yield page

    async def delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        await self._call("delete", gone[0] if gone else "", lambda: self._backend.delete(gone))

    async def close(self) -> None:
        await self.arrivals()
        await self._backend.close()

    async def arrivals(self) -> None:
        """Wait until every late call has been carried out."""
        while self._under_way:
            await asyncio.gather(*self._under_way, return_exceptions=True)

    async def _call(self, operation: str, key: str, call: Callable[[], Awaitable[T]]) -> T:
        fault = next((f for f in self.faults if f.strikes(operation, key, self._runtime)), None)
        if fault is None:
            return await call()
        if fault.strike is Strike.LATE:
            self._send_late(call, fault.seconds)
            raise self._error(fault, operation, key)
        if fault.seconds > 0:
            await self._runtime.sleep(fault.seconds)
        match fault.strike:
            case Strike.BEFORE:
                raise self._error(fault, operation, key)
            case Strike.AFTER:
                await call()
                raise self._error(fault, operation, key)
            case _:
                return await call()

    def _error(self, fault: Fault, operation: str, key: str) -> Exception:
        if fault.error is not None:
            return fault.error(key)
        # A caller cannot tell a request that was lost from an answer that was, so both look alike.
        return StoreUnavailable(f"{operation} of {key!r}: connection broken", unknown_outcome=operation in WRITES)

    def _send_late(self, call: Callable[[], Awaitable[object]], seconds: float) -> None:
        async def arrive() -> None:
            await self._runtime.sleep(seconds)
            await call()

        task = asyncio.ensure_future(arrive())
        self._under_way.add(task)
        task.add_done_callback(self._arrived)

    def _arrived(self, task: asyncio.Task[None]) -> None:
        self._under_way.discard(task)
        if not task.cancelled():
            task.exception()  # a late call that is refused has nobody left to tell
