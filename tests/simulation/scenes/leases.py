"""Readers that keep what they read by leases, and sleep: some so long that the lease is over when they wake up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from slate_engine.errors import Error
from slate_engine.lsm.leases import SKEW_MS
from slate_engine.lsm.reader import Reader
from tests.simulation.actors import Collector, Compactor
from tests.simulation.faults import Role
from tests.simulation.network import CALM
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.scenes.gc import INPUTS_KEPT
from tests.simulation.session import WATCHING, files_of, read_all
from tests.simulation.world import Process, World

LEASE = WATCHING.checkpoint_lifetime
SHORT, LONG = LEASE / 3, 2 * (LEASE + SKEW_MS / 1000)
NAPS = 9
"""So many short ones are together longer than a lease lasts."""
SKEWS = [0, -SKEW_MS // 4, SKEW_MS // 4]
"""By so many milliseconds a clock is wrong here, and is set when it jumps: two of them differ by as much as leases allow."""


async def leases(world: World) -> Play:
    """Who sleeps for less than half of his lease reads on as if nothing had been. Who sleeps through it may find that what
    he read is gone, and is told so; he never reads anything else, and after a look at the present he reads that."""
    play, chance = Play(world), world.chance
    world.lease = LEASE
    options = replace(drawn_options(chance), manifest_poll_interval=0.5, l0_sst_size_bytes=chance.choice([60, 200]))
    play.beside("compact", CALM, lambda process: Compactor(process, INPUTS_KEPT).compact, 3.0, 1.02)
    collector = world.process("collect", skew_ms=chance.choice(SKEWS))
    collector.jump_later(chance.uniform(0, 2 * LEASE), chance.choice(SKEWS))
    play.at_work(collector, Collector(collector, 0.0).collect, 4.0, 1.02)
    process = world.process("writer")
    quiet = LONG + 20 if chance.random() < 0.5 else 0.0

    async def write() -> None:
        session = await play.open(process, options)
        await clients(session, 2, 3, Habits(pace=0.5, flushes=1.0))
        await session.flush(memtable=True)
        # Until everything is compacted, so that nothing changes while somebody sleeps.
        await asyncio.sleep(quiet / 4)
        sleepers = [world.process(f"sleeper{number}", skew_ms=chance.choice(SKEWS)) for number in range(2)]
        reading = [asyncio.ensure_future(each.run(_sleep(play, each, quiet > 0))) for each in sleepers]
        await asyncio.sleep(quiet)
        await clients(session, 2, 14, Habits(pace=20.0, flushes=0.8))
        await asyncio.gather(*reading)

    await play.in_process(process, write())
    return await play.finish(options)


async def _sleep(play: Play, process: Process, quiet: bool) -> None:
    chance = process.runtime.random
    process.acts_as(Role.READER)
    reader = await Reader.managed(files_of(process), WATCHING)
    if quiet:
        # Its lease ends, and nothing else has happened when it wakes up.
        process.pause(LONG)
        await asyncio.sleep(0)
        await reader.refresh()
    process.jump_later(chance.uniform(0, 2 * LEASE), chance.choice(SKEWS[1:]))
    for _ in range(chance.randint(1, 2)):
        await asyncio.sleep(chance.uniform(0, 10))
        # Not read before it sleeps: what it has read it would remember.
        snapshot = reader.snapshot()
        long = chance.random() < 0.4
        for _ in range(1 if long else NAPS):
            # In between it is awake for long enough to renew its lease, and together it sleeps for longer than that lives.
            process.pause(LONG if long else SHORT)
            await asyncio.sleep(0)
            await asyncio.sleep(5)
        must_have = play.ledger.acknowledged
        try:
            again = await read_all(snapshot)
        except Error as gone:
            if not long:
                raise AssertionError(f"{process.name} was never asleep for long, and {gone.message}") from gone
        else:
            commits = play.ledger.judge(process.name, again)
            newer = [id for id in commits if play.ledger.attempts[id - 1].seq > snapshot.max_seq]
            assert not newer, f"{process.name} reads {newer}, which came after what it began to read"
        await reader.refresh()
        play.ledger.saw(process.name, await read_all(reader.snapshot()), must_have)
    await reader.close()
