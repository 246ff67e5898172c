"""How a scenario begins, goes on and ends: the parts that all of them share."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from slate_engine.errors import ClosedError, Error, UnavailableError
from slate_engine.lsm.writer_options import WriterOptions
from tests.simulation.actors import now_and_then
from tests.simulation.audit import audit
from tests.simulation.ledger import Ledger, Seen
from tests.simulation.network import CALM, Weather
from tests.simulation.session import FEW_KEYS, JOIN, Follower, Session, Watcher, drawn_changes, files_of, read_all
from tests.simulation.world import Crashed, Process, World

T = TypeVar("T")
Work = Callable[[], Awaitable[None]]

OPTIONS = WriterOptions(operator=JOIN, l0_max_ssts=1000)


def drawn_options(chance: random.Random) -> WriterOptions:
    """Small limits, so that everything that happens once in an hour happens in a few commits."""
    return replace(
        OPTIONS,
        flush_interval=chance.choice([0.005, 0.1, 1.0]),
        manifest_poll_interval=chance.choice([1.0, 7.0, 30.0]),
        l0_sst_size_bytes=chance.choice([60, 200, 1 << 20]),
        max_wal_files=chance.choice([2, 5, 4096]),
        max_unflushed_bytes=chance.choice([2_000, 1 << 20]),
    )


@dataclass
class Play:
    """One run: a world, its ledger, and what was played."""

    world: World
    ledger: Ledger = field(init=False)
    sessions: list[Session] = field(default_factory=list)
    others: list[Process] = field(default_factory=list)
    final: Seen | None = None

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.world.note)

    @property
    def chance(self) -> random.Random:
        return self.world.chance

    async def open(self, process: Process, options: WriterOptions = OPTIONS) -> Session:
        session = await Session.open(process, self.ledger, options)
        self.sessions.append(session)
        return session

    async def in_process(self, process: Process, work: Coroutine[Any, Any, None]) -> None:
        """Have ``work`` done in a process that may crash, be cut off or be fenced; anything else is a defect."""
        with suppress(Crashed, ClosedError, UnavailableError):
            await process.run(work)
        self.check_ends()

    def check_ends(self) -> None:
        """Nobody may have stopped without a reason."""
        for session in self.sessions:
            if not session.process.crashed:
                session.check_end(self.world)

    async def within(self, seconds: float, work: Awaitable[T], what: str) -> T:
        """Nothing may hang for ever."""
        try:
            return await asyncio.wait_for(work, seconds)
        except TimeoutError:
            raise AssertionError(f"{what} takes more than {seconds:g} s, in calm weather") from None

    def beside(
        self, name: str, weather: Weather, make: Callable[[Process], Work], seconds: float, slower: float = 1.3
    ) -> Process:
        """A process that does something now and then, until the end."""
        process = self.world.process(name, weather)
        self.at_work(process, make(process), seconds, slower)
        return process

    def at_work(self, process: Process, work: Work, seconds: float, slower: float = 1.3) -> None:
        """The same for a process that is there already."""
        self.others.append(process)
        if self.world.injector.allows(f"{process.name} at work"):
            process.start(now_and_then(process, work, seconds, slower))

    def follower(self, name: str, weather: Weather = CALM) -> Process:
        """A reader that looks again and again."""

        def make(process: Process) -> Work:
            return Follower(process, self.ledger).look

        return self.beside(name, weather, make, 0.5)

    def reader(self, name: str, weather: Weather = CALM, *, managed: bool = False) -> Process:
        """The engine's own following reader, asked again and again."""

        def make(process: Process) -> Work:
            return Watcher(process, self.ledger, managed=managed).look

        return self.beside(name, weather, make, 0.5)

    async def finish(self, options: WriterOptions = OPTIONS) -> Play:
        """The weather clears up. Somebody opens the database, writes to it, and all that was promised is there."""
        world = self.world
        for process in self.others:
            process.crash()
        world.clear_up()
        await world.arrivals()
        last = world.process("last")

        async def write_and_close() -> None:
            session = await self.open(last, options)
            await session.write(drawn_changes(self.chance, "last"))
            await session.close()

        await self.within(600, last.run(write_and_close()), "opening, writing and closing")
        reader = world.process("reader")

        async def read() -> Seen:
            return await read_all(await files_of(reader).latest())

        self.final = await self.within(600, reader.run(read()), "reading")
        self.check_ends()
        self.ledger.close(self.final)
        audit(world)
        return self


@dataclass(frozen=True)
class Habits:
    """How somebody uses a writer."""

    pace: float = 0.2
    """The longest pause between two commits."""
    waits: float = 0.5
    """How often he waits until a commit is durable before he goes on."""
    flushes: float = 0.1
    reads: float = 0.1
    keys: int = FEW_KEYS
    large: int = 0
    """How many bytes a value may have."""


async def client(session: Session, tag: str, commits: int, habits: Habits) -> None:
    """Somebody who writes through a writer in his own process: waits for some commits at once, for some later, and for
    some never."""
    chance = session.process.runtime.random
    waiting: list[asyncio.Task[None]] = []
    for number in range(commits):
        await asyncio.sleep(chance.uniform(0, habits.pace))
        if not session.process.world.injector.allows(f"commit {tag}.{number} of {session.process.name}"):
            continue
        taken = await session.take(drawn_changes(chance, f"{tag}.{number}", keys=habits.keys, large=habits.large))
        if chance.random() < habits.waits:
            await session.settle(*taken)
        elif chance.random() < 0.7:
            waiting.append(asyncio.ensure_future(session.settle(*taken)))
        if chance.random() < habits.flushes:
            await session.flush(memtable=chance.random() < 0.7)
        if chance.random() < habits.reads:
            await session.read()
            await session.look_up(b"k%02d" % chance.randrange(habits.keys))
    for task in waiting:
        await task


async def clients(session: Session, count: int, commits: int, habits: Habits) -> None:
    """Several of them. When the writer is gone, they all end with its error."""
    tag = session.process.name
    tasks = [client(session, f"{tag}{number}", commits, habits) for number in range(count)]
    results = await asyncio.gather(*tasks, return_exceptions=True)
    failures = [result for result in results if isinstance(result, BaseException)]
    if failures:
        raise next((failure for failure in failures if not isinstance(failure, Error)), failures[0])
