"""How the loops of a process say that they go round.

A writer stores its log and flushes, a reader polls, a compactor plans and merges, a collector looks for garbage: each in a
loop of its own, and a process is alive if they go round. A loop is at work, or at rest; at rest it may have a time by which
it wakes. At work it gives signs: when it begins, and whenever the store has answered it. One that gives none for long has
got stuck, unless it is the store that it waits for: to start the process anew would not make that any faster.

Whoever wants to know opens a :class:`Watch`. Tasks inherit it from the one that starts them, so nobody has to hand it down,
and without one nothing is noted.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

from slate_engine.errors import Error
from slate_engine.runtime import Runtime

T = TypeVar("T")


class Loop:
    """One loop, or several tasks that count as one. ``name`` reads as what it does: "flushing memtables"."""

    def __init__(self, name: str, runtime: Runtime) -> None:
        self.name = name
        self._runtime = runtime
        self._last_sign = runtime.monotonic()
        self._due: float | None = None
        self._begun = 0
        self._at_work = 0
        self._requests: dict[object, float] = {}
        """When each that is under way was begun."""
        self._defect: Exception | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        """The life of the loop, or of one of its tasks: a task has it once, around all that it does. One that ends by a
        defect stays in sight, until another of its name takes its place."""
        watch = _watch.get()
        _current.set(self)
        self._begun += 1
        self._at_work += 1
        self._sign()
        self._defect = None
        if watch is not None:
            watch.loops[self.name] = self
        try:
            yield
        except Error:
            raise
        except Exception as defect:
            self._defect = defect
            raise
        finally:
            self._at_work -= 1
            self._begun -= 1
            self._sign()
            over = not self._begun and self._defect is None
            if watch is not None and over and watch.loops.get(self.name) is self:
                del watch.loops[self.name]

    async def rest(self, waiting: Awaitable[T], seconds: float | None = None) -> T:
        """Wait for something that is no work of this loop: for it to be called, or for at most ``seconds`` to pass."""
        self._at_work -= 1
        self._due = None if seconds is None else self._runtime.monotonic() + seconds
        try:
            return await waiting
        finally:
            self._due = None
            self._at_work += 1
            self._sign()

    async def sleep(self, seconds: float) -> None:
        await self.rest(self._runtime.sleep(seconds), seconds)

    def _sign(self) -> None:
        self._last_sign = self._runtime.monotonic()

    # --- what it comes to ----------------------------------------------------------------------------------------

    def stuck(self, patience: float) -> str | None:
        """Why the loop will not go round by itself any more, if that is so after ``patience`` seconds without a sign."""
        now = self._runtime.monotonic()
        if self._defect is not None and now - self._last_sign > patience:
            return (
                f"{self.name} broke down at {self._since(self._last_sign)}, and was not begun again: {self._defect!r}"
            )
        if self._due is not None and now - self._due > patience:
            return f"{self.name} was to go on at {self._since(self._due)}, and has not"
        if self._at_work and not self._requests and now - self._last_sign > patience:
            return f"{self.name} has not gone round since {self._since(self._last_sign)}"
        return None

    def held_up(self, patience: float) -> str | None:
        """Whether the loop has waited for one answer of the store for longer than ``patience`` seconds."""
        if not self._requests:
            return None
        first = min(self._requests.values())
        if self._runtime.monotonic() - first <= patience:
            return None
        return f"{self.name} has waited for the store since {self._since(first)}"

    def _since(self, moment: float) -> str:
        seconds = self._runtime.monotonic() - moment
        return f"{_clock(self._runtime.now_ms() - int(seconds * 1000))}, {seconds:.0f} s ago"

    # --- requests ------------------------------------------------------------------------------------------------

    @contextmanager
    def _request(self) -> Iterator[object]:
        ticket = object()
        self._requests[ticket] = self._runtime.monotonic()
        try:
            yield ticket
        finally:
            self._requests.pop(ticket, None)
            self._sign()

    @contextmanager
    def _interrupted(self, ticket: object) -> Iterator[None]:
        self._requests.pop(ticket, None)
        self._sign()
        try:
            yield
        finally:
            self._requests[ticket] = self._runtime.monotonic()


class Watch:
    """Sees every loop that is begun by whoever opened it, and by the tasks that those start."""

    def __init__(self) -> None:
        self.loops: dict[str, Loop] = {}

    def open(self) -> None:
        """From now on, in the present task and those that it starts."""
        _watch.set(self)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)
_current: ContextVar[Loop | None] = ContextVar("loop", default=None)


@contextmanager
def asking_the_store() -> Iterator[None]:
    """Around a request: while it lasts, the loop that made it waits for somebody else."""
    loop = _current.get()
    if loop is None:
        yield
        return
    with loop._request():
        yield


@contextmanager
def sending_to_the_store(chunks: AsyncIterable[T]) -> Iterator[AsyncIterable[T]]:
    """The same for a request whose body is made meanwhile, by ourselves: that is work."""
    loop = _current.get()
    if loop is None:
        yield chunks
        return
    with loop._request() as ticket:
        yield _made_at_work(chunks, loop, ticket)


async def _made_at_work(chunks: AsyncIterable[T], loop: Loop, ticket: object) -> AsyncIterator[T]:
    source = aiter(chunks)
    while True:
        with loop._interrupted(ticket):
            try:
                chunk = await anext(source)
            except StopAsyncIteration:
                return
        yield chunk


def _clock(ms: int) -> str:
    """The time of day in UTC, as logs have it."""
    seconds = ms // 1000 % 86400
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02} UTC"
