"""A database that is being written is destroyed, brought back, and deleted for good, by processes that crash meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.errors import DataError, Error, UnavailableError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import RETURN_S, BeingUndeleted
from slate_engine.state.tombstone import Destroyed
from slate_engine.store.numbered import BoundaryAhead
from tests.simulation.faults import Role
from tests.simulation.ledger import Fate
from tests.simulation.network import CALM, Moment, Weather
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.scenes.crashes import leave_a_log
from tests.simulation.session import PATH, files_of
from tests.simulation.world import HASTY, PATIENT, Crashed, Process, World


async def destroys(world: World) -> Play:
    """Softly, once or twice. Of what is asked for afterwards nothing is acknowledged; undeleting brings all of it back."""
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    await leave_a_log(play, options)
    for _ in range(chance.randint(1, 2)):
        writing = asyncio.ensure_future(reign(play, options))
        await asyncio.sleep(chance.uniform(0.5, 3))
        await insist(world, destroy_softly)
        asked_before = len(play.ledger.attempts)
        await asyncio.sleep(chance.choice([0.1, 10.0]))
        await writing
        late = [each for each in play.ledger.attempts[asked_before:] if each.fate is Fate.ACKNOWLEDGED]
        assert not late, f"{late} was acknowledged in a destroyed database"
        await insist(world, undelete)
    return await play.finish(options)


async def deletions(world: World) -> Play:
    """It is deleted for good, while somebody else would have it back: one of them gets his way, and wholly.

    Nothing is on its way for long here, and nobody crashes with a manifest on its way: one that arrives when everything is
    gone, its boundary too, stands there alone."""
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    await leave_a_log(play, options)
    await reign(play, options)
    await insist(world, destroy_softly)
    for process in world.processes:
        process.crash()
    await world.arrivals()
    await asyncio.gather(*(_try(world, work) for work in (destroy_hard, undelete, undelete)))
    world.clear_up()
    await world.arrivals()
    process = world.process("judge")
    try:
        await process.run(files_of(process).latest())
    except Destroyed:
        with suppress(Destroyed, DataError):
            await process.run(undelete(files_of(process)))
            return await play.finish(options)
        await asyncio.sleep(2 * RETURN_S)  # somebody who died on the way may have said that he brings it back
        await process.run(destroy_hard(files_of(process)))
    except (Error, NothingStored):
        # Nothing can be read: then nothing may be left, either.
        pass
    else:
        return await play.finish(options)
    left = [key for key in world.bucket._keys if key.startswith(f"{PATH}/")]
    assert not left, f"of the database {left} is left"
    return play


async def reign(play: Play, options: WriterOptions) -> None:
    chance = play.chance
    process = play.world.process(weather=chance.choice([CALM, Weather.drawn(chance)]))

    async def write() -> None:
        session = await play.open(process, options)
        await clients(session, 2, 6, Habits(pace=0.8, flushes=0.2))

    with suppress(Destroyed):
        await play.in_process(process, write())


async def insist(world: World, work: Callable[[DatabaseFiles], Awaitable[object]]) -> None:
    """A client that starts again, in a new process, until it is done."""
    for attempt in range(8):
        with suppress(Crashed, UnavailableError, BoundaryAhead):
            await _once(_troubled(world) if attempt < 7 else world.process(), work)
            return
    raise AssertionError(f"{work} cannot be done, in calm weather")


async def _try(world: World, work: Callable[[DatabaseFiles], Awaitable[object]]) -> None:
    """Somebody who tries a few times, and may be refused."""
    chance = world.chance
    for _ in range(3):
        await asyncio.sleep(chance.uniform(0, 0.5))
        with suppress(Crashed, UnavailableError, Destroyed, BeingUndeleted, NothingStored, DataError):
            await _once(_briefly_troubled(world), work)
            return


def _briefly_troubled(world: World) -> Process:
    process = _troubled(world)
    process.link.weather = replace(process.link.weather, latency=CALM.latency, late=0.0, twice=0.0, slow=0.0)
    process.life.turns_left = None
    if process.link.crash_at is not None:
        process.link.crash_at = process.link.crash_at[0], world.chance.choice([Moment.BEFORE, Moment.AFTER])
    return process


def _troubled(world: World) -> Process:
    chance = world.chance
    process = world.process(weather=Weather.drawn(chance), patience=chance.choice([PATIENT, HASTY]))
    if chance.random() < 0.6:
        process.doom(1, 25)
    return process


async def _once(process: Process, work: Callable[[DatabaseFiles], Awaitable[object]]) -> None:
    async def run() -> None:
        with process.acting_as(Role.ADMINISTRATOR):
            await work(files_of(process))

    await process.run(run())
