"""Destroyed softly: for as long as the grace lasts it can be brought back, and when that is over nothing stays."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.admin.destroying import NotWhole, destroy_softly, undelete
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import NothingStored
from slate_engine.state.tombstone import Destroyed
from tests.simulation.faults import Role
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Play, Work, drawn_options
from tests.simulation.scenes.crashes import leave_a_log
from tests.simulation.scenes.destroys import insist, reign
from tests.simulation.session import PATH, files_of
from tests.simulation.world import Process, World

GRACE = 120.0
DISAGREEMENT = 6.0
"""By so many seconds at most the clocks of two processes differ here, and a second is lost to rounding."""
KEPT = 200_000
"""For so many milliseconds a checkpoint keeps the database longer than its grace does."""
SOON = Task(min_age=1.0)
OPTIONS = GcOptions(Task(min_age=GRACE), manifests=SOON, wal=SOON, compacted=SOON, compactions=SOON)


async def graces(world: World) -> Play:
    """Collectors whose clocks disagree wait for the grace to end. Somebody undeletes the database in time, or nobody does; a
    checkpoint may keep it for longer."""
    play, chance = Play(world), world.chance
    world.inspector.grace = GRACE - DISAGREEMENT
    options = drawn_options(chance)
    await leave_a_log(play, options)
    await reign(play, options)
    kept = chance.random() < 0.4
    if kept:
        await insist(world, _keep)
    for number in range(2):
        skew_ms = chance.choice([-2000, 0, 2000])
        process = world.process(f"collect{number}", Weather.drawn(chance), skew_ms=skew_ms)
        play.at_work(process, collecting(process), 3.0, 1.0)
        if chance.random() < 0.3:
            process.doom(5, 60)
    await asyncio.sleep(chance.uniform(0, 5))
    # Whoever needs many attempts may have done it at first, and find that the grace is over.
    with suppress(NothingStored):
        await insist(world, destroy_softly)
    if chance.random() < 0.5:
        await asyncio.sleep(chance.uniform(0, GRACE / 3))
        # Whoever needs many attempts may be too late; then it is gone for good, and wholly.
        with suppress(Destroyed, NothingStored, NotWhole):
            await insist(world, undelete)
            return await play.finish(options)
    await asyncio.sleep(GRACE + KEPT / 1000 + 60)
    await _check_gone(play)
    return play


async def _keep(files: DatabaseFiles) -> None:
    await create_checkpoint(files, CheckpointOptions(KEPT, name="kept"))


def collecting(process: Process) -> Work:
    collector = Collector(files_of(process), OPTIONS)
    process.acts_as(Role.COLLECTOR)
    process.world.collects_after(SOON.min_age)

    async def collect() -> None:
        for error in (await collector.collect()).errors:
            # Of two who delete it, the slower one may not know what to make of what he finds.
            if not process.world.inspector.is_going(PATH):
                raise error

    return collect


async def _check_gone(play: Play) -> None:
    """With somebody left to collect, and calm weather, nothing is left."""
    world = play.world
    world.clear_up()
    await world.arrivals()
    process = world.process("last", CALM)
    await play.within(600, process.run(_collect(process)), "collecting what is left")
    left = [key for key in world.bucket._keys if key.startswith(f"{PATH}/")]
    assert not left, f"long after its grace, of the database {left} is left"


async def _collect(process: Process) -> None:
    collect = collecting(process)
    for _ in range(3):
        await collect()
        await asyncio.sleep(5)
