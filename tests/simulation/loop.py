"""An event loop on virtual time: nothing ever waits, and the same seed gives the same run to the letter.

The selector of an ordinary asyncio loop is asked to block until the next timer is due; ours moves the clock there instead.
A loop with nothing left to wait for is a deadlock, and says so at once.

Tasks may belong to a simulated process: every callback of the loop carries a context, and in it stands whose :class:`Life`
it is part of. A process that is paused has its callbacks held back until it goes on; one that has crashed never runs
another line, not even a ``finally``.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
import selectors
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from slate_engine.errors import Error
from slate_engine.store.protocol import NotModified

T = TypeVar("T")

EPOCH_MS = 1_700_000_000_000
"""Where the virtual wall clock begins."""

LONGEST = 2 * 3600.0
"""A scenario that has taken so many virtual seconds goes round in circles."""


class Deadlock(AssertionError):
    """Every task waits for something that can no longer happen."""


class Life:
    """Whether the tasks of one process run."""

    def __init__(self) -> None:
        self.running = True
        self.ended = False
        self.turns_left: int | None = None
        """After so many more callbacks the process is killed: between any two awaits of any of its tasks."""
        self.kill: Callable[[], None] = self.end
        self._held: list[tuple[Callable[..., object], tuple[Any, ...], contextvars.Context]] = []

    def pause(self) -> None:
        self.running = False

    def resume(self, loop: asyncio.AbstractEventLoop) -> None:
        if self.ended or self.running:
            return
        self.running = True
        held, self._held = self._held, []
        for callback, args, context in held:
            loop.call_soon(callback, *args, context=context)

    def end(self) -> None:
        self.running = False
        self.ended = True
        self._held.clear()

    def turn(self, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context) -> None:
        """Run a callback of this process now; or later, if it is paused; or never."""
        if self.running:
            if self.turns_left is not None:
                self.turns_left -= 1
                if self.turns_left <= 0:
                    self.turns_left = None
                    self.kill()
                    if self.ended:
                        return
            callback(*args)
        elif not self.ended:
            self._held.append((callback, args, context))


LIFE: contextvars.ContextVar[Life | None] = contextvars.ContextVar("LIFE", default=None)
"""The process that runs at the moment; none is the world itself."""


class _VirtualSelector(selectors.BaseSelector):
    """Registers what asyncio registers for itself, and lets time pass instead of blocking."""

    def __init__(self) -> None:
        self._keys: dict[int, selectors.SelectorKey] = {}
        self.now = 0.0

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        number = fileobj if isinstance(fileobj, int) else fileobj.fileno()
        self._keys[number] = selectors.SelectorKey(fileobj, number, events, data)
        return self._keys[number]

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._keys.pop(fileobj if isinstance(fileobj, int) else fileobj.fileno())

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise Deadlock("nothing is scheduled any more, and the scenario has not ended")
        self.now += max(timeout, 0.0)
        if self.now > LONGEST:
            raise Deadlock(f"the scenario has not ended after {LONGEST:g} virtual seconds")
        return []

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._keys


class SimulatedLoop(asyncio.SelectorEventLoop):
    """An asyncio loop whose clock is virtual."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        self._over = False
        self.defects: list[BaseException] = []
        """What tasks ended with that they must not end with, whether anybody waited for them or not."""
        super().__init__(self._virtual)
        self.set_exception_handler(lambda loop, context: None)

    def time(self) -> float:
        return self._virtual.now

    def call_soon(
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        if context is None:
            context = contextvars.copy_context()
        if self._over:
            return asyncio.Handle(callback, args, self, context)
        life = context.get(LIFE)
        if life is None:
            return super().call_soon(callback, *args, context=context)
        return super().call_soon(life.turn, callback, args, context, context=context)

    def call_at(
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        if context is None:
            context = contextvars.copy_context()
        life = context.get(LIFE)
        if life is None:
            return super().call_at(when, callback, *args, context=context)
        return super().call_at(when, life.turn, callback, args, context, context=context)

    def create_task(
        self, coro: Any, *, name: str | None = None, context: contextvars.Context | None = None
    ) -> asyncio.Task[Any]:
        task = super().create_task(coro, name=name, context=context)
        task.add_done_callback(self._look_at)
        return task

    def fail(self, defect: BaseException) -> None:
        """Something is wrong that no task has noticed: the run ends here."""
        self.defects.append(defect)
        self.stop()

    def _look_at(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            return
        failure = task.exception()
        if failure is not None and not isinstance(failure, (Error, NotModified, StopAsyncIteration)):
            self.defects.append(failure)

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """A generator that a crashed process has left behind is not closed: nothing of that process runs any more. Python
        would do it whenever its garbage collector comes by, which is another time in every run."""

    def abandon(self) -> None:
        """The end of the world: what still waits is dropped where it stands, as the tasks of crashed processes were."""
        self._over = True
        for task in asyncio.all_tasks(self):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            # Closed here, and not whenever the garbage collector comes by.
            with suppress(RuntimeError):
                task.get_coro().close()  # type: ignore[union-attr]
        self.close()


class SimulatedRuntime:
    """The engine's :class:`~slate_engine.runtime.Runtime` on a simulated loop: its time, and chance from a seed."""

    def __init__(self, loop: SimulatedLoop, seed: int | str) -> None:
        self.loop = loop
        self.random = random.Random(seed)
        self.skew_ms = 0

    def now_ms(self) -> int:
        return EPOCH_MS + int(self.loop.time() * 1000) + self.skew_ms

    def monotonic(self) -> float:
        return self.loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    def random_bytes(self, n: int) -> bytes:
        return self.random.randbytes(n)

    def uniform(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)

    async def run(self, work: Callable[..., T], *args: object) -> T:
        # A thread would finish at a time of its own choosing; a turn of the loop is as unpredictable, and repeatable.
        await asyncio.sleep(self.random.uniform(0, 0.002))
        return work(*args)


def simulate(scenario: Callable[[SimulatedRuntime], Coroutine[Any, Any, T]], seed: int | str) -> T:
    """Run ``scenario`` to its end on virtual time, and give what it returns."""
    loop = SimulatedLoop()
    try:
        result = loop.run_until_complete(scenario(SimulatedRuntime(loop, seed)))
    finally:
        loop.abandon()
        if loop.defects:
            raise loop.defects[0]
    return result
