"""A world in one thread: one bucket, processes that use it, and a record of all that was done to it.

Each process has its own clock (skewed), its own chance, its own connection to the bucket, and in front of it the very
:class:`~slate_engine.store.retry.RetryingStore` that production uses, so that lost answers are settled as they are there.
A process can be paused, cut off, and killed at any request or between any two awaits. On a bucket without conditional writes
(:meth:`World.without_conditions`) each has a second connection, to the transactional store that decides them.
"""

from __future__ import annotations

import asyncio
import contextvars
import hashlib
import random
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from slate_engine.store.protocol import ObjectStore
from slate_engine.store.retry import RetryingStore, RetryPolicy
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.settled import Settled
from tests.simulation.bucket import Bucket, Records
from tests.simulation.connection import Connection, Table
from tests.simulation.faults import Fault, Injector, Role
from tests.simulation.inspector import Inspector
from tests.simulation.loop import LIFE, Life, SimulatedRuntime, simulate
from tests.simulation.memo import remembering
from tests.simulation.network import CALM, Link, Moment, Weather, Wire

T = TypeVar("T")

TURNS_A_REQUEST = 2
"""About so many callbacks a process runs between two of its requests."""

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
        self.life.kill = self._kill
        self.link = Link(weather)
        self.table_link = Link(weather, Fault.TABLE_UNREACHABLE)
        self.runtime = SimulatedRuntime(world.loop, f"{world.seed}/{name}")
        if skew_ms and world.injector.strikes(Fault.CLOCK_SKEW, name):
            self.runtime.skew_ms = skew_ms
        self._crash = world.loop.create_future()
        self._context = contextvars.copy_context()
        self._context.run(LIFE.set, self.life)
        self._tasks: set[asyncio.Task[Any]] = set()
        self.store: ObjectStore = RetryingStore(
            Connection(world.bucket, self._wire(self.link, "network")), self.runtime, patience
        )
        if world.table is not None:
            table = Table(world.table, self._wire(self.table_link, "table"))
            self.store = TwoPhaseStore(self.store, Settled(table, self.runtime), self.runtime)

    def _wire(self, link: Link, name: str) -> Wire:
        chance = random.Random(f"{self.world.seed}/{self.name}/{name}")
        return Wire(self, self.world.loop, link, chance, self.world.injector)

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
        self.note("crash", "", "")
        self.life.end()
        self.world.killed |= self.world.left_by(self)
        if not self._crash.done():
            self._crash.set_result(None)
        for link in (self.link, self.table_link):
            self.world.context.run(link.scatter, self.world.chance, self.world.loop)

    def pause(self, seconds: float) -> None:
        """Stand still, as a process does that is swapped out, and go on as if nothing had happened."""
        if not self.world.injector.strikes(Fault.PAUSE, f"{self.name} at {self.world.loop.time():.3f}"):
            return
        self.world.count_stall(seconds)
        self.note("pause", "", f"{seconds:g} s")
        self.life.pause()
        self.world.loop.call_later(seconds, self.life.resume, self.world.loop, context=self.world.context)

    def cut_off(self, seconds: float) -> None:
        """Let nothing through to the bucket for a while."""
        self.link.out_until = self.world.loop.time() + seconds

    def cut_off_table(self, seconds: float) -> None:
        """The same for the transactional store."""
        self.table_link.out_until = self.world.loop.time() + seconds

    def jump(self, ms: int) -> None:
        """Have somebody set the clock. What measures time without it goes on as before."""
        if self.world.injector.strikes(Fault.CLOCK_JUMP, f"{self.name} at {self.world.loop.time():.3f}"):
            self.note("jump", "", f"{ms} ms")
            self.runtime.skew_ms += ms

    def jump_later(self, seconds: float, ms: int) -> None:
        self.world.loop.call_later(seconds, self.jump, ms, context=self.world.context)

    def doom(self, first: int, last: int) -> None:
        """Draw where it will be killed: at one of these requests, or about then between two awaits."""
        chance = self.world.chance
        request, moment = chance.randint(first, last), chance.choice([None, *Moment])
        if moment is None:
            self.life.turns_left = request * TURNS_A_REQUEST + chance.randrange(TURNS_A_REQUEST)
        else:
            self.link.crash_at = request, moment

    def _kill(self) -> None:
        if self.world.injector.strikes(Fault.KILL_AT_AWAIT, self.name):
            self.crash()

    def note(self, operation: str, key: str, outcome: str) -> None:
        self.world.note(self.name, operation, key, outcome)

    def acts_as(self, role: Role) -> None:
        """Until it crashes, or :meth:`retires`."""
        self.world.enter(role, self)

    def retires(self, role: Role) -> None:
        self.world.acting[role].discard(self)

    @contextmanager
    def acting_as(self, role: Role) -> Iterator[None]:
        self.acts_as(role)
        try:
            yield
        finally:
            self.retires(role)


class World:
    """Made by :func:`explore`."""

    def __init__(self, runtime: SimulatedRuntime, seed: int | str, without: frozenset[str] = frozenset()) -> None:
        self.seed = seed
        self.loop = runtime.loop
        self.runtime = runtime
        self.chance = runtime.random
        self.injector = Injector(without)
        self.inspector = Inspector(runtime, runtime.loop.fail)
        self.bucket = Bucket(runtime, self.inspector)
        self.context = contextvars.copy_context()
        self.trace: list[tuple[float, str, str, str, str]] = []
        self.processes: list[Process] = []
        self.acting: defaultdict[Role, set[Process]] = defaultdict(set)
        self.killed: set[Role] = set()
        self.min_age: float | None = None
        """For how long the most impatient collector of this run leaves an object alone, in seconds."""
        self.lease: float | None = None
        """For how long the checkpoint of a reader of this run lives."""

    def without_conditions(self) -> None:
        """From here on the bucket takes every write, and a table decides which of them count."""
        self.bucket.without_conditions()

    @property
    def table(self) -> Records | None:
        """What decides conditional writes, if the bucket does not."""
        return self.bucket.table

    def enter(self, role: Role, process: Process) -> None:
        others = self.acting[role]
        if others - {process}:
            self.injector.counts[role.value] += 1
        if role in self.killed:
            self.killed.discard(role)
            self.injector.counts[Fault.RESTART] += 1
        others.add(process)

    def left_by(self, process: Process) -> set[Role]:
        """The roles that are without this process from now on."""
        left = {role for role, acting in self.acting.items() if process in acting}
        for role in left:
            self.acting[role].discard(process)
        return left

    def collects_after(self, min_age: float) -> None:
        self.min_age = min_age if self.min_age is None else min(self.min_age, min_age)

    def count_stall(self, seconds: float) -> None:
        if self.min_age is not None and seconds > self.min_age:
            self.injector.counts[Fault.LONG_STALL] += 1
        if self.lease is not None and seconds > self.lease:
            self.injector.counts[Fault.LEASE_STALL] += 1

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
            for link in (process.link, process.table_link):
                link.weather = CALM
                link.out_until = 0.0
            process.life.turns_left = None
            process.life.resume(self.loop)

    async def arrivals(self) -> None:
        """Wait until nothing is on its way to the bucket any more, of what is on its way now."""
        links = [link for process in self.processes for link in (process.link, process.table_link)]
        due = [delivery.timer.when() for link in links for delivery in link.under_way]
        await asyncio.sleep(max(due, default=0.0) - self.loop.time())

    @property
    def objects(self) -> dict[str, bytes]:
        """What is there by the rules of whoever decides that."""
        return self.bucket.counted()

    @property
    def record(self) -> bytes:
        """All that happened, and what it left behind, to the byte."""
        objects = sorted(self.bucket._objects.items())
        left = [(key, bytes(found.data), found.meta, mark) for key, (found, mark) in objects]
        records = [] if self.table is None else sorted(self.table.records.items())
        return "\n".join(map(repr, [*self.trace, *left, *records])).encode()

    @property
    def digest(self) -> str:
        """A fingerprint of that."""
        return hashlib.blake2b(self.record, digest_size=16).hexdigest()

    def story(self, last: int | None = None) -> str:
        """The last things that happened."""
        return "\n".join(map(told, self.trace[-last:] if last else self.trace))


def told(event: tuple[float, str, str, str, str]) -> str:
    at, process, operation, key, outcome = event
    return f"{at:12.6f} {process:8} {operation:12} {key:44} {outcome}".rstrip()


class Broken(AssertionError):
    """A promise was broken in a run. The seed gives the same run again."""

    def __init__(self, name: str, seed: int | str, error: BaseException, world: World | None) -> None:
        self.name, self.seed, self.error, self.world = name, seed, error, world
        story = "" if world is None else world.story(60)
        replay = f"replay: python -m tests.simulation '{name}' {seed} --story"
        super().__init__(f"{name}, seed {seed!r}: {type(error).__name__}: {error}\n{replay}\n{story}")


def name_of(scenario: Callable[..., Any]) -> str:
    return str(getattr(scenario, "__name__", scenario))


def explore(
    scenario: Callable[[World], Coroutine[Any, Any, T]], seed: int | str, without: frozenset[str] = frozenset()
) -> T:
    """Run ``scenario`` in a new world; what goes wrong there is raised with the seed and the last events. ``without`` are
    mishaps, by name, that are left out."""
    world: World | None = None

    async def run(runtime: SimulatedRuntime) -> T:
        nonlocal world
        world = World(runtime, seed, without)
        return await scenario(world)

    try:
        with remembering():
            return simulate(run, seed)
    except Exception as error:
        raise Broken(name_of(scenario), seed, error, world) from error
