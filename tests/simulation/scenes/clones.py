"""A database is cloned while it is written, compacted and collected. Those who clone it crash, stall and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import NotThisClone, create_clone
from slate_engine.errors import UnavailableError
from slate_engine.lsm.commit import Change
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.store.numbered import BoundaryAhead
from tests.simulation.actors import Collector, Compactor
from tests.simulation.faults import Role
from tests.simulation.network import CALM, Moment, Weather
from tests.simulation.play import OPTIONS, Habits, Play, clients, drawn_options
from tests.simulation.scenes.crashes import leave_a_log
from tests.simulation.session import JOIN, PATH, files_of, read_all
from tests.simulation.world import HASTY, PATIENT, Crashed, Process, World, explore

CLONE = "clone"
REQUEST, STRANGER = UUID(int=1, version=4), UUID(int=2, version=4)
"""The ids of two requests for a clone at the same path."""
UNKNOWN = ("a finished clone", "another client makes a clone")
YOUNG = 1.0
"""Seconds for which collectors leave an object alone: next to nothing, so that only references protect it."""


def clone_of(process: Process) -> DatabaseFiles:
    return DatabaseFiles(process.store, CLONE, process.runtime, JOIN)


async def clones(world: World) -> Play:
    """The clone is made again and again until somebody has made it. It shows what was acknowledged before the first of them
    began, and goes its own way; the parent keeps one checkpoint for it, and all that the clone needs."""
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    await leave_a_log(play, options)
    play.beside("compact", CALM, lambda process: Compactor(process).compact, 2.0)
    play.beside("collect", CALM, lambda process: Collector(process, YOUNG).collect, 3.0)
    writer = world.process("writer")

    async def write() -> None:
        session = await play.open(writer, options)
        await clients(session, 2, 5, Habits(pace=0.5, waits=0.8))

    writing = asyncio.ensure_future(play.in_process(writer, write()))
    request = chance.choice([REQUEST, REQUEST, None])
    begun = await asyncio.gather(*(_insist(play, chance.uniform(0, 3), request) for _ in range(chance.choice([1, 2]))))
    await writing
    await check_clone(play, min((rows for rows in begun if rows is not None), key=len), request)
    return await play.finish(options)


async def _insist(play: Play, patience: float, request: UUID | None, *, alone: bool = True) -> frozenset[int] | None:
    """A client that starts again, in a new process, until the clone is made. Returns the rows acknowledged before that; None
    if it is not ``alone``, and the clone was made for another request."""
    world, chance = play.world, play.chance
    await asyncio.sleep(patience)
    must_have = play.ledger.acknowledged
    for attempt in range(8):
        calm = attempt == 7
        process = world.process(
            weather=CALM if calm else Weather.drawn(chance), patience=chance.choice([PATIENT, HASTY])
        )
        if not calm and chance.random() < 0.7:
            process.doom(1, 40)
        # Who takes long between a look at the manifests and a look at their boundary finds them out of step.
        with suppress(Crashed, UnavailableError, BoundaryAhead):
            try:
                await process.run(_make(process, request))
            except NotThisClone as refusal:
                if not alone:
                    return None
                # Without an id, a client that did not hear of its success cannot be told that this clone is its own, nor can
                # one that began at the same time as another and has looked at another state.
                if request is not None or not any(reason in refusal.message for reason in UNKNOWN):
                    raise AssertionError(f"a request does not know its own clone again: {refusal.message}") from refusal
            return must_have
        # Sometimes so long that what the parent kept for the first attempt has expired.
        await asyncio.sleep(chance.choice([0.1, 5.0, 400.0]))
    raise AssertionError("the clone cannot be made, in calm weather")


async def rivals(world: World) -> Play:
    """Two clients want a clone at the same path, each for a request of its own. One of them is given the clone, with all
    that was acknowledged before it began; the other one is refused, however often either of them crashes."""
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    await leave_a_log(play, options)
    writer = world.process("writer")

    async def write() -> None:
        session = await play.open(writer, options)
        await clients(session, 2, 5, Habits(pace=0.5, waits=0.8))

    writing = asyncio.ensure_future(play.in_process(writer, write()))
    pauses = [0.0, chance.choice([0.0, 0.05, chance.uniform(0, 3)])]
    requests = [REQUEST, STRANGER]
    given = await asyncio.gather(*map(partial(_insist, play, alone=False), pauses, requests))
    await writing
    winners = [
        (request, must_have) for request, must_have in zip(requests, given, strict=True) if must_have is not None
    ]
    assert len(winners) == 1, f"of two requests {len(winners)} were given the clone"
    request, must_have = winners[0]
    await check_clone(play, must_have, request)
    return await play.finish(options)


async def _make(process: Process, request: UUID | None = None) -> None:
    with process.acting_as(Role.CLONER):
        await create_clone(clone_of(process), [CloneSource(PATH)], id=request)


async def check_clone(play: Play, must_have: frozenset[int], request: UUID | None) -> None:
    """The weather clears up, and what the parent keeps for attempts that came to nothing expires."""
    world = play.world
    for process in play.others:
        process.crash()
    world.clear_up()
    await world.arrivals()
    await asyncio.sleep(400)
    process = world.process("inspector")

    async def inspect() -> None:
        clone, parent = clone_of(process), files_of(process)
        for _ in range(3):
            await Compactor(process).compact()
        await asyncio.sleep(2 * YOUNG)
        await Collector(process, YOUNG).collect()
        play.ledger.saw("the clone", await read_all(await clone.latest()), must_have)
        manifest = (await clone.manifests.read_latest()).value
        held = (await parent.manifests.read_latest()).value.checkpoints
        kept = [each.id for each in held if each.expire_time_s is None]
        assert kept == [each.final_checkpoint_id for each in manifest.external_dbs], f"the parent keeps {held}"
        await _check_known_again(process, request)
        await _go_its_own_way(clone)

    await play.within(3000, process.run(inspect()), "looking at the clone")


async def _check_known_again(process: Process, request: UUID | None) -> None:
    """A client that did not hear of its success asks again, and finds its clone. Any other request wants the state of now,
    which this clone does not show."""
    before = (await clone_of(process).manifests.read_latest()).id
    if request is not None:
        await _make(process, request)
    for other in (None, STRANGER if request != STRANGER else REQUEST):
        try:
            await _make(process, other)
        except NotThisClone:
            continue
        raise AssertionError("a finished clone of another request was given away as a new one")
    assert (await clone_of(process).manifests.read_latest()).id == before, "asking for the clone again has changed it"


async def _go_its_own_way(clone: DatabaseFiles) -> None:
    """Nothing of what the clone's writer does shows in the parent; :meth:`Play.finish` would see it."""
    writer = await Writer.open(clone, OPTIONS)
    await (await writer.write([Change(b"clone's own", b"1")])).durable()
    await writer.flush_memtable()
    await writer.close()
    assert b"clone's own" in (await read_all(await clone.latest())).rows


@dataclass(frozen=True)
class CrashedClone:
    """A scene: whoever makes the clone crashes at ``request``; then somebody else makes it. ``pause`` is how long he waits:
    the parent keeps what the first one began with for five minutes."""

    request: int
    moment: Moment
    pause: float

    @property
    def __name__(self) -> str:
        return f"clone/{self.request}/{self.moment.name.lower()}/{self.pause:g}"

    async def __call__(self, world: World) -> Play:
        play = Play(world)
        await leave_a_log(play, OPTIONS)
        victim = world.process("victim")
        victim.link.crash_at = self.request, self.moment
        must_have = play.ledger.acknowledged
        with suppress(Crashed):
            await victim.run(_make(victim, REQUEST))
        await asyncio.sleep(self.pause)
        heir = world.process("heir")
        await heir.run(_make(heir, REQUEST))
        await check_clone(play, must_have, REQUEST)
        return await play.finish()


def crashed_clones(moment: Moment, pause: float) -> Iterator[CrashedClone]:
    """One for every request that it takes to make a clone."""
    play = explore(CrashedClone(0, Moment.BEFORE, 0.0), 0)
    requests = next(process for process in play.world.processes if process.name == "victim").link.requests
    assert requests > 25, "the clone has become too cheap to show anything"
    for request in range(1, requests + 1):
        yield CrashedClone(request, moment, pause)
