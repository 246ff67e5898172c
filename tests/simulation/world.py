"""A world in one thread: one bucket, processes that use it, and a record of all that was done to it.

Each process has its own clock (skewed), its own chance, its own connection to the bucket, and in front of it the very
:class:`~slate_engine.store.retry.RetryingStore` that production uses, so that lost answers are settled as they are there.
A process can be paused, cut off, and crashed at any request.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from slate_engine.store.memory import MemoryStore
from slate_engine.store.retry import RetryingStore, RetryPolicy
from tests.simulation.loop import LIFE, Life, SimulatedRuntime, simulate
from tests.simulation.memo import remembering
from tests.simulation.network import CALM, Connection, Link, Weather

T = TypeVar("T")

PATIENT = RetryPolicy()
HASTY = RetryPolicy(attempts=2, seconds=5.0)
"""Gives up soon, so that those above have to cope with outcomes that nobody knows."""


class Crashed(Exception):
    """The process that somebody outside waits for has crashed."""


class Process:
    """A process of this world. What runs in it is started with :meth:`run` or :meth:`start`."""

    def __init__(self, world: World, name: str, weather: Weather, skew_ms: int, patience: RetryPolicy) -> None:
        self.name = name
        self.world = world
        self.life = Life()
        self.link = Link(weather)
        self.runtime = SimulatedRuntime(world.loop, f"{world.seed}/{name}")
        self.runtime.skew_ms = skew_ms
        self._crash = world.loop.create_future()
        self._context = contextvars.copy_context()
        self._context.run(LIFE.set, self.life)
        self._tasks: set[asyncio.Task[Any]] = set()
        connection = Connection(
            world.bucket,
            world.loop,
            self.link,
            random.Random(f"{world.seed}/{name}/network"),
            crash=self.crash,
            pause=self.pause,
            note=lambda operation, key, outcome: world.note(name, operation, key, outcome),
        )
        self.store = RetryingStore(connection, self.runtime, patience)

    @property
    def crashed(self) -> bool:
        return self.life.ended

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run ``work`` as a task of this process."""
        task = self.world.loop.create_task(work, context=self._context.copy())
        # Nobody else holds the tasks of a crashed process, and they must not be seen to end.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """The same, and wait for its result. Raises :class:`Crashed` if the process ends before."""
        task = self.start(work)
        await asyncio.wait([task, self._crash], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            raise Crashed(self.name)
        return task.result()

    def crash(self) -> None:
        """End at once. Of the requests that are under way some are lost, some arrive in time, and some late."""
        if self.life.ended:
            return
        self.world.note(self.name, "crash", "", "")
        self.life.end()
        if not self._crash.done():
            self._crash.set_result(None)
        self.world.context.run(self.link.scatter, self.world.chance, self.world.loop)

    def pause(self, seconds: float) -> None:
        """Stand still, as a process does that is swapped out, and go on as if nothing had happened."""
        self.world.note(self.name, "pause", "", f"{seconds:g} s")
        self.life.pause()
        self.world.loop.call_later(seconds, self.life.resume, self.world.loop, context=self.world.context)

    def cut_off(self, seconds: float) -> None:
        """Let nothing through to the bucket for a while."""
        self.link.out_until = self.world.loop.time() + seconds


class World:
    """Made by :func:`explore`."""

    def __init__(self, runtime: SimulatedRuntime, seed: int | str) -> None:
        self.seed = seed
        self.loop = runtime.loop
        self.runtime = runtime
        self.chance = runtime.random
        self.bucket = MemoryStore(runtime)
        self.context = contextvars.copy_context()
        self.trace: list[tuple[float, str, str, str, str]] = []
        self.processes: list[Process] = []

    def process(
        self, name: str = "", weather: Weather = CALM, *, skew_ms: int = 0, patience: RetryPolicy = PATIENT
    ) -> Process:
        process = Process(self, name or f"p{len(self.processes) + 1}", weather, skew_ms, patience)
        self.processes.append(process)
        return process

    def note(self, process: str, operation: str, key: str, outcome: str) -> None:
        self.trace.append((round(self.loop.time(), 6), process, operation, key, outcome))

    def clear_up(self) -> None:
        """From now on the weather is calm, and everybody runs who still can."""
        for process in self.processes:
            process.link.weather = CALM
            process.link.out_until = 0.0
            process.life.resume(self.loop)

    async def arrivals(self) -> None:
        """Wait until nothing is on its way to the bucket any more, of what is on its way now."""
        due = [delivery.timer.when() for process in self.processes for delivery in process.link.under_way]
        await asyncio.sleep(max(due, default=0.0) - self.loop.time())

    @property
    def digest(self) -> str:
        """A fingerprint of all that happened, and of what it left in the bucket."""
        whole = hashlib.blake2b(repr(self.trace).encode(), digest_size=16)
        for key, (found, mark) in sorted(self.bucket._objects.items()):
            whole.update(repr((key, bytes(found.data), found.meta, mark)).encode())
        return whole.hexdigest()

    def story(self, last: int = 60) -> str:
        """The last things that happened to the bucket."""
        return "\n".join(
            f"{at:12.6f} {process:8} {operation:10} {key:40} {outcome}"
            for at, process, operation, key, outcome in self.trace[-last:]
        )


class Broken(AssertionError):
    """A promise was broken in a run. The seed gives the same run again."""


def explore(scenario: Callable[[World], Coroutine[Any, Any, T]], seed: int | str) -> T:
    """Run ``scenario`` in a new world; what goes wrong there is raised with the seed and the last events."""
    world: World | None = None

    async def run(runtime: SimulatedRuntime) -> T:
        nonlocal world
        world = World(runtime, seed)
        return await scenario(world)

    try:
        with remembering():
            return simulate(run, seed)
    except Exception as error:
        story = world.story() if world is not None else ""
        name = getattr(scenario, "__name__", str(scenario))
        raise Broken(f"{name}, seed {seed!r}: {type(error).__name__}: {error}\n{story}") from error
