"""On a bucket that has no conditional writes: a table decides them, and the table can be out of reach, too."""

from __future__ import annotations

import asyncio

from slate_engine.store.two_phase import TwoPhaseStore
from tests.simulation.actors import Collector, Compactor, Keeper
from tests.simulation.network import Weather
from tests.simulation.play import Play, drawn_options
from tests.simulation.scenes.storms import reign
from tests.simulation.world import HASTY, PATIENT, Process, World


async def tables(world: World) -> Play:
    """Writers come, go and fight, beside a compactor, a collector, somebody with checkpoints, and readers. Every write that
    is to happen once takes several steps, and any of them may be the last of its process."""
    world.without_conditions()
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    if chance.random() < 0.7:
        play.beside("compact", Weather.drawn(chance), lambda process: Compactor(process).compact, 2.0)
        play.beside("collect", Weather.drawn(chance), lambda process: Collector(process, 30.0).collect, 4.0)
        play.beside("keep", Weather.drawn(chance), lambda process: Keeper(process).keep, 3.0)
        play.follower("follow", Weather.drawn(chance))
    fighters = []
    for _ in range(chance.randint(2, 4)):
        process = world.process(weather=Weather.drawn(chance), patience=chance.choice([PATIENT, HASTY]))
        if chance.random() < 0.5:
            process.doom(1, 80)
        fighters.append(asyncio.ensure_future(_fight(play, process)))
        fighters.append(asyncio.ensure_future(_trouble(process)))
        await asyncio.sleep(chance.choice([0.0, 3.0]))
    await asyncio.gather(*fighters)
    await play.finish(options)
    last = world.process("tidy")
    assert isinstance(last.store, TwoPhaseStore)
    await last.store.recover()
    assert await last.store.recover() == 0, "some write can never be finished"
    return play


async def _fight(play: Play, process: Process) -> None:
    for _ in range(play.chance.randint(1, 2)):
        await asyncio.sleep(play.chance.uniform(0, 2))
        await play.in_process(process, reign(play, process, drawn_options(play.chance)))


async def _trouble(process: Process) -> None:
    chance = process.world.chance
    for _ in range(chance.randint(0, 2)):
        await asyncio.sleep(chance.uniform(0, 3))
        match chance.randrange(3):
            case 0:
                process.cut_off_table(chance.choice([1.0, 10.0, 70.0]))
            case 1:
                process.cut_off(chance.choice([1.0, 10.0]))
            case _:
                process.pause(chance.choice([0.5, 40.0]))
