"""Trying again, without ever mistaking the outcome of a write.

Reads, copies and deletes are repeated as they are: doing them twice does no harm. A listing goes on behind the last key
that arrived. A PUT is repeated only after reading what is there, and with the same mark (see
:mod:`slate_engine.store.marks`), so a lost answer turns neither into a false conflict nor into a false success.

Between attempts the wrapper waits: up to twice as long each time, at a random point of that span, so that writers that
failed together do not come back together. Attempts and total time are bounded. Everything is asked of the runtime, hence
in a simulation waiting costs nothing and chance is reproducible.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

from slate_engine.errors import InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.backend import Backend, Signed
from slate_engine.store.marks import Verdict, judge, new_mark
from slate_engine.store.protocol import (
    OVERWRITE,
    Buffer,
    Conflict,
    NotFound,
    Object,
    ObjectMeta,
    PutMode,
    StoreUnavailable,
)

T = TypeVar("T")
DELETE_BATCH = 1000


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """``attempts`` counts the first one too, ``seconds`` bounds the whole call, delays double up to the longest."""

    attempts: int = 10
    seconds: float = 120.0
    first_delay: float = 0.05
    longest_delay: float = 5.0


BRIEF = RetryPolicy(attempts=5, seconds=20.0)
"""For the single requests of a call that takes many: one that fails should not make all the others be sent again."""


class RetryObserver(Protocol):
    """Told of what callers never see."""

    def retried(self, operation: str) -> None: ...

    def settled(self, verdict: str) -> None: ...


class Patience:
    """How much longer one call may go on trying."""

    def __init__(
        self, operation: str, policy: RetryPolicy, runtime: Runtime, observer: RetryObserver | None = None
    ) -> None:
        self._operation = operation
        self._policy = policy
        self._runtime = runtime
        self._observer = observer
        self._deadline = runtime.monotonic() + policy.seconds
        self._failures = 0

    def refill(self) -> None:
        """Progress was made: a long listing may fail as often as it likes, but not all the time."""
        self._failures = 0
        self._deadline = self._runtime.monotonic() + self._policy.seconds

    async def wait(self, error: StoreUnavailable, *, lost: bool = False) -> StoreUnavailable | None:
        """Wait before the next attempt. If there is to be none, the error to end with, at once: it says with ``lost`` that
        the call may have been carried out unseen."""
        self._failures += 1
        span = min(self._policy.longest_delay, self._policy.first_delay * 2.0 ** (self._failures - 1))
        delay = self._runtime.uniform(span / 2, span)
        out_of_time = self._runtime.monotonic() + delay > self._deadline
        if not error.retryable or self._failures >= self._policy.attempts or out_of_time:
            tried = f" (attempt {self._failures})" if self._failures > 1 else ""
            end = StoreUnavailable(f"{error.message}{tried}", retryable=error.retryable, unknown_outcome=lost)
            end.__cause__ = error
            return end
        if self._observer is not None:
            self._observer.retried(self._operation)
        await self._runtime.sleep(delay)
        return None


async def repeat(patience: Patience, attempt: Callable[[], Awaitable[T]]) -> T:
    """``attempt`` again and again until it succeeds or patience ends: for calls that may well be carried out twice."""
    lost = False
    while True:
        try:
            return await attempt()
        except StoreUnavailable as error:
            lost = lost or error.unknown_outcome
            if end := await patience.wait(error, lost=lost):
                raise end from error


class RetryingStore:
    """The backend behind it, tried again on throttling, server errors, broken connections and timeouts."""

    def __init__(
        self,
        backend: Backend,
        runtime: Runtime,
        policy: RetryPolicy | None = None,
        observer: RetryObserver | None = None,
    ) -> None:
        self._backend = backend
        self._runtime = runtime
        self._policy = policy or RetryPolicy()
        self._observer = observer

    @property
    def url(self) -> str:
        return self._backend.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._repeat("get", lambda: self._backend.get(key, if_none_match=if_none_match))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._repeat("get_ranges", lambda: self._backend.get_ranges(key, ranges))

    async def head(self, key: str) -> ObjectMeta:
        return await self._repeat("head", lambda: self._backend.head(key))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        mark = new_mark(self._runtime, mode)
        patience = self._patience("put")
        lost = False
        while True:
            refusal: Conflict | None = None
            end: StoreUnavailable | None = None
            try:
                return await self._backend.put(key, data, mode, mark=mark)
            except Conflict as error:
                refusal = error
            except StoreUnavailable as error:
                lost = lost or error.unknown_outcome
                end = await patience.wait(error, lost=lost)
                if end is not None and not lost:
                    raise end from error
                if end is None and not error.unknown_outcome:
                    continue  # this attempt did nothing, so there is nothing to look for
            except InvalidError as error:
                if lost:
                    raise self._unknown(key) from error
                raise
            found = await self._look(key, patience, end, lost=lost)
            verdict = judge(found, mark, mode, refused=refusal is not None, lost=lost)
            self._settled(verdict)
            match verdict:
                case Verdict.WON:
                    assert found is not None
                    return found.meta.etag
                case Verdict.LOST:
                    raise Conflict(key, mode) from refusal
                case Verdict.UNKNOWN:
                    raise self._unknown(key)
                case Verdict.AGAIN if end is not None:
                    raise end

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        """The chunks are gone once they were sent, so a broken upload cannot be repeated here; but one whose last answer
        was lost is recognised."""
        mark = new_mark(self._runtime, OVERWRITE)
        try:
            return await self._backend.put_stream(key, chunks, mark=mark)
        except StoreUnavailable as error:
            if not error.unknown_outcome:
                raise
            found = await self._look(key, self._patience("put_stream"), None, lost=True)
            if judge(found, mark, OVERWRITE, refused=False, lost=True) is not Verdict.WON:
                raise
            self._settled(Verdict.WON)
            assert found is not None
            return found.meta.etag

    async def copy(self, source: str, destination: str) -> None:
        await self._repeat("copy", lambda: self._backend.copy(source, destination))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        patience = self._patience("list")
        last = start_after
        while True:
            try:
                async for page in self._backend.list(prefix, start_after=last):
                    yield page
                    last = page[-1].key
                    patience.refill()
                return
            except StoreUnavailable as error:
                if end := await patience.wait(error):
                    raise end from error

    async def delete(self, keys: Iterable[str]) -> None:
        # In batches, so that a failure does not undo the progress of a long list.
        gone = list(keys)
        for start in range(0, len(gone), DELETE_BATCH):
            batch = gone[start : start + DELETE_BATCH]
            await self._repeat("delete", partial(self._backend.delete, batch))

    async def close(self) -> None:
        await self._backend.close()

    def _patience(self, operation: str) -> Patience:
        return Patience(operation, self._policy, self._runtime, self._observer)

    async def _repeat(self, operation: str, attempt: Callable[[], Awaitable[T]]) -> T:
        return await repeat(self._patience(operation), attempt)

    async def _look(self, key: str, patience: Patience, end: StoreUnavailable | None, *, lost: bool) -> Signed | None:
        """What is there now, by whatever is left of the caller's patience; ``end`` is set when this is the last look."""
        while True:
            try:
                return await self._backend.read_mark(key)
            except NotFound:
                return None
            except StoreUnavailable as error:
                end = end or await patience.wait(error, lost=lost)
                if end is not None:
                    raise end from error
            except InvalidError as error:
                if lost:
                    raise self._unknown(key) from error
                raise

    def _unknown(self, key: str) -> StoreUnavailable:
        return StoreUnavailable(
            f"the answer to a write of {key!r} in {self.url} was lost, and what can be read now does not tell whether it was"
            " carried out; read the current state before writing again",
            retryable=False,
            unknown_outcome=True,
        )

    def _settled(self, verdict: Verdict) -> None:
        if self._observer is not None:
            self._observer.settled(verdict.value)
