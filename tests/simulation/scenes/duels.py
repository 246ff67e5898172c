"""Several writers at once, each of which takes itself for the only one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

from slate_engine.lsm.commit import Change
from slate_engine.lsm.writer_options import WriterOptions
from tests.simulation.actors import Collector
from tests.simulation.network import CALM, Weather
from tests.simulation.play import OPTIONS, Habits, Play, clients, drawn_options
from tests.simulation.scenes.storms import reign
from tests.simulation.world import HASTY, PATIENT, Process, World


async def duels(world: World) -> Play:
    """Two to four writers stall, go on, and come back."""
    return await _duel(world, drawn_options(world.chance))


async def parallel_duels(world: World) -> Play:
    """The same with several WAL files under way at once, so that logs have holes and fencing has a window."""
    chance = world.chance
    return await _duel(world, replace(drawn_options(chance), max_parallel_writes=chance.choice([2, 3, 8])))


async def walless_duels(world: World) -> Play:
    """The same without a WAL: only what is in level 0 is durable."""
    return await _duel(world, replace(drawn_options(world.chance), wal_enabled=False))


async def _duel(world: World, options: WriterOptions) -> Play:
    play, chance = Play(world), world.chance
    if chance.random() < 0.5:
        play.follower("follow")
    else:
        play.reader("watch", managed=chance.random() < 0.5)

    async def fight(process: Process) -> None:
        for _ in range(chance.randint(1, 2)):
            await asyncio.sleep(chance.uniform(0, 2))
            await play.in_process(process, reign(play, process, _drawn(world, options)))

    fighters = []
    for _ in range(chance.randint(2, 4)):
        process = world.process(weather=Weather.drawn(chance), patience=chance.choice([PATIENT, HASTY]))
        fighters.append(asyncio.ensure_future(fight(process)))
        fighters.append(asyncio.ensure_future(_trouble(process, chance.randint(0, 3))))
    await asyncio.gather(*fighters)
    return await play.finish(options)


def _drawn(world: World, options: WriterOptions) -> WriterOptions:
    """Other limits for the same database. Whether its writers have several files under way may change, too."""
    chance = world.chance
    fewer = options.max_parallel_writes > 1 and chance.random() < 0.3
    return replace(
        drawn_options(chance),
        wal_enabled=options.wal_enabled,
        max_parallel_writes=1 if fewer else options.max_parallel_writes,
    )


async def _trouble(process: Process, times: int) -> None:
    """Pauses and cuts of one process, from outside."""
    chance = process.world.chance
    for _ in range(times):
        await asyncio.sleep(chance.uniform(0, 3))
        match chance.randrange(3):
            case 0:
                process.cut_off(chance.choice([1.0, 10.0, 70.0]))
            case _:
                process.pause(chance.choice([0.5, 5.0, 40.0]))


YOUNG = 1.0
"""Seconds for which the collectors of the revenants' heirs leave an object alone."""

STALLS: dict[str, Callable[[str, str], bool]] = {
    "a WAL file": lambda operation, key: operation == "put" and "/wal/" in key,
    "an SST": lambda operation, key: operation == "put" and "/compacted/" in key,
    "a manifest": lambda operation, key: operation == "put" and "/manifest/" in key,
    "a look at the boundary": lambda operation, key: operation == "get" and key.endswith("manifest.boundary"),
}


async def revenants(world: World) -> Play:
    """A writer stalls amid a write, or the write itself is stuck on its way. Minutes later, when others have taken over,
    flushed, and old objects are collected, it goes on as if nothing had happened."""
    play, chance = Play(world), world.chance
    options = replace(drawn_options(chance), wal_enabled=chance.random() < 0.6, manifest_poll_interval=1e6)
    stalls = STALLS[chance.choice(list(STALLS))]
    world.collects_after(YOUNG)
    ghost = world.process("ghost")
    stuck = asyncio.Event()
    skips = chance.randrange(3)

    def delay(operation: str, key: str) -> float:
        nonlocal skips
        if stuck.is_set() or not stalls(operation, key):
            return 0.0
        skips -= 1
        if skips >= 0:
            return 0.0
        stuck.set()
        return 400.0

    async def haunt() -> None:
        session = await play.open(ghost, options)
        await session.write([Change(b"ghost", b"1")])
        if chance.random() < 0.5:
            ghost.link.pause_when = delay
        else:
            ghost.link.hold_when = delay
        await clients(session, 3, 4, Habits(pace=0.1, flushes=0.4))
        stuck.set()

    haunting = asyncio.ensure_future(play.in_process(ghost, haunt()))
    await stuck.wait()
    play.beside("collect", CALM, lambda process: Collector(process, YOUNG).collect, 3.0)
    for _ in range(chance.randint(1, 3)):
        heir = world.process()
        await play.in_process(heir, _inherit(play, heir, replace(options, manifest_poll_interval=5.0)))
        await asyncio.sleep(chance.uniform(1, 40))
    await haunting
    return await play.finish(options)


async def _inherit(play: Play, process: Process, options: WriterOptions) -> None:
    session = await play.open(process, options)
    await clients(session, 2, 3, Habits(pace=0.1, flushes=0.3))
    await session.flush(memtable=True)


async def stragglers(world: World) -> Play:
    """WAL files of a burst reach the bucket one by one and in any order, while the next writer already takes over."""
    play, chance = Play(world), world.chance
    options = replace(OPTIONS, max_parallel_writes=chance.randint(2, 6), flush_interval=0.001)
    slow = Weather(slow=0.7, longest=3.0, applies=lambda operation, key: operation == "put" and "/wal/" in key)

    async def burst(process: Process) -> None:
        session = await play.open(process, options)
        process.link.weather = slow
        await clients(session, 4, 4, Habits(pace=0.2, waits=0.1, flushes=0.0))

    fights = []
    for _ in range(chance.randint(2, 3)):
        process = world.process()
        fights.append(asyncio.ensure_future(play.in_process(process, burst(process))))
        await asyncio.sleep(chance.uniform(0.2, 1.5))
    await asyncio.gather(*fights)
    return await play.finish(options)


async def holes(world: World) -> Play:
    """A writer with several WAL files under way loses the store amid a burst, and crashes or comes back; the log that it
    leaves has holes."""
    play, chance = Play(world), world.chance
    options = replace(OPTIONS, max_parallel_writes=chance.randint(2, 8), flush_interval=0.002)
    for _ in range(chance.randint(1, 3)):
        process = world.process(
            weather=replace(Weather.drawn(chance), applies=lambda _, key: "/wal/" in key),
            patience=chance.choice([PATIENT, HASTY]),
        )

        async def work(process: Process = process) -> None:
            session = await play.open(process, options)
            burst = process.start(clients(session, 4, 4, Habits(pace=0.01, waits=0.0, flushes=0.0)))
            await process.runtime.sleep(chance.uniform(0, 0.03))
            match chance.randrange(3):
                case 0:
                    process.crash()
                    await asyncio.sleep(1)
                case 1:
                    process.cut_off(chance.choice([1.0, 100.0]))
            await burst

        await play.in_process(process, work())
        process.crash()
    return await play.finish(options)
