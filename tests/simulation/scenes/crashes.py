"""One writer, a fixed script, and a crash at every single request of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change
from slate_engine.lsm.writer_options import WriterOptions
from tests.simulation.network import Moment
from tests.simulation.play import OPTIONS, Play
from tests.simulation.session import Session
from tests.simulation.world import World, explore


@dataclass(frozen=True)
class Crash:
    """A scene: a predecessor leaves a log, then the victim opens the database, goes through its day and crashes at
    ``request``. If its day is over before, there is no crash."""

    kind: str
    request: int
    moment: Moment

    @property
    def __name__(self) -> str:
        return f"crash/{self.kind}/{self.request}/{self.moment.name.lower()}"

    async def __call__(self, world: World) -> Play:
        play, options = Play(world), KINDS[self.kind]
        await leave_a_log(play, options)
        process = world.process("victim")
        process.link.crash_at = self.request, self.moment

        async def work() -> None:
            await busy_day(await play.open(process, options))

        await play.in_process(process, work())
        return await play.finish(options)


KINDS = {
    "plain": OPTIONS,
    "small memtables": replace(OPTIONS, l0_sst_size_bytes=60),
    "parallel": replace(OPTIONS, max_parallel_writes=3, flush_interval=0.001),
    "no WAL": replace(OPTIONS, wal_enabled=False),
}


def crashes(kind: str, moments: Iterable[Moment]) -> Iterator[Crash]:
    """One for every request that the script makes and each of these moments of it."""
    requests = count_requests(kind)
    assert requests > 30, "the script has become too short to show anything"
    for moment in moments:
        for request in range(1, requests + 1):
            yield Crash(kind, request, moment)


def count_requests(kind: str) -> int:
    """How many requests the victim makes when nothing happens to it."""
    play = explore(Crash(kind, 0, Moment.BEFORE), 0)
    victim = next(process for process in play.world.processes if process.name == "victim")
    return victim.link.requests


async def busy_day(session: Session) -> None:
    """A little of everything that a writer does."""
    await session.write([Change(b"a", b"1"), Change(b"b", b"1"), Change(b"c", b"1")])
    first = await session.take([Change(b"a", b"2")])
    await session.process.runtime.sleep(0.01)
    second = await session.take([Change(b"b", b"", TOMBSTONE), Change(b"d", b"2")])
    await session.settle(*second)
    await session.settle(*first)
    await session.flush(memtable=True)
    await session.take([Change(b"a", b"+", MERGE), Change(b"c", b"3")])
    await session.flush()
    await session.write([Change(b"a", b"+", MERGE), Change(b"e", b"4")])
    await session.take([Change(b"f", b"5")])
    await session.close()


async def leave_a_log(play: Play, options: WriterOptions) -> None:
    """A predecessor that ended without a flush, so that whoever opens next has something to replay: commits of several
    rows each, larger than small memtables are."""
    process = play.world.process("before")

    async def work() -> None:
        session = await play.open(process, replace(options, l0_sst_size_bytes=1 << 20))
        for number in range(4):
            await session.write([Change(b"%c%d" % (letter, number), b"before" * 8) for letter in b"abcd"])

    await process.run(work())
    process.crash()
