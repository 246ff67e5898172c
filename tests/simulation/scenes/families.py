"""A clone outlives its parent: nothing that is done to the parent changes what the clone shows."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import SOURCE_LIFETIME_MS, create_clone
from slate_engine.admin.destroying import destroy_hard, destroy_softly
from slate_engine.errors import UnavailableError
from slate_engine.gc.collector import Collector
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import Major
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import InvalidDeletion
from slate_engine.state.tombstone import Destroyed
from tests.simulation.faults import Role
from tests.simulation.ledger import Seen
from tests.simulation.network import CALM, Weather
from tests.simulation.play import OPTIONS, Play, Work, drawn_options
from tests.simulation.scenes.clones import REQUEST, clone_of
from tests.simulation.scenes.crashes import leave_a_log
from tests.simulation.scenes.destroys import insist, reign
from tests.simulation.session import PATH, files_of, read_all
from tests.simulation.world import Crashed, Process, World

NOW = Task(min_age=0)
GREEDY = GcOptions(destroyed=NOW, manifests=NOW, wal=NOW, compacted=NOW, compactions=NOW, detach=NOW)
COMPACTOR = CompactorOptions(checkpoint_lifetime=20.0)


async def families(world: World) -> Play:
    """The parent is destroyed, and collectors without any patience look after both. While the clone shows anything of the
    parent, the parent stays; the clone rewrites it all, lets go, and the parent goes. What the clone shows never changes."""
    play, chance = Play(world), world.chance
    await leave_a_log(play, OPTIONS)
    await reign(play, drawn_options(chance))
    flusher = world.process("flush")
    await flusher.run(_flush(play, flusher))
    await insist(world, _clone)
    reader = world.process("reader")
    first = await reader.run(_shown(reader))
    play.ledger.judge("the clone", first)
    for name, of in (("parent", files_of), ("clone", clone_of)):
        for number in range(2):
            process = world.process(f"{name}{number}", Weather.drawn(chance))
            play.at_work(process, _collecting(process, of(process)), 2.0, 1.02)
            if number == 0 and chance.random() < 0.7:
                process.doom(5, 80)
    await insist(world, destroy_softly)
    process = world.process("hasty", Weather.drawn(chance))
    with suppress(Crashed, UnavailableError, InvalidDeletion):
        await process.run(destroy_hard(files_of(process)))
        raise AssertionError("the parent was deleted under its clone")
    for _ in range(3):
        await asyncio.sleep(chance.uniform(0, 10))
        assert await reader.run(_shown(reader)) == first, "what the clone shows has changed"
    await insist(world, _rewrite)
    await asyncio.sleep(60)
    return await _check_parted(play, reader, first)


async def _flush(play: Play, process: Process) -> None:
    """A parent whose rows are all in the log is nothing that a clone has to hold on to."""
    session = await play.open(process)
    await session.flush(memtable=True)
    await session.close()


async def _clone(files: DatabaseFiles) -> None:
    await create_clone(
        DatabaseFiles(files.store, "clone", files.runtime, files.operator), [CloneSource(PATH)], id=REQUEST
    )


async def _rewrite(files: DatabaseFiles) -> None:
    """All of it into SSTs of the clone's own; what is in the log only has to be flushed for that."""
    clone = DatabaseFiles(files.store, "clone", files.runtime, files.operator)
    writer = await Writer.open(clone, replace(OPTIONS, manifest_poll_interval=1.0))
    await writer.flush_memtable()
    await writer.close()
    await compact_once(clone, Major(), COMPACTOR, force=True)


async def _shown(process: Process) -> Seen:
    return await read_all(await clone_of(process).latest())


def _collecting(process: Process, files: DatabaseFiles) -> Work:
    collector = Collector(files, GREEDY)
    process.acts_as(Role.COLLECTOR)
    process.world.collects_after(NOW.min_age)

    async def collect() -> None:
        with suppress(Destroyed, NothingStored):
            for error in (await collector.collect()).errors:
                if not process.world.inspector.is_going(PATH):
                    raise error

    return collect


async def _check_parted(play: Play, reader: Process, first: Seen) -> Play:
    world = play.world
    for process in play.others:
        process.crash()
    world.clear_up()
    await world.arrivals()
    last = world.process("last", CALM)
    # What the parent keeps for attempts to clone it that came to nothing expires, too.
    await asyncio.sleep(SOURCE_LIFETIME_MS / 1000)
    for _ in range(4):
        await asyncio.sleep(COMPACTOR.checkpoint_lifetime)
        for files in (clone_of(last), files_of(last)):
            await play.within(600, last.run(_collecting(last, files)()), "collecting")
    # What the network brings late, or once more, when everything is gone stands there alone: nobody can know of it.
    stray = {
        key
        for _, _, operation, key, how in world.trace
        if operation == "put" and how in ("late", "twice", "unreachable")
    }
    left = [key for key in world.bucket._keys if key.startswith(f"{PATH}/") and key not in stray]
    assert not left, f"the clone needs nothing of its parent any more, of which {left} is left"
    seen = await reader.run(_shown(reader))
    assert seen == first, "what the clone shows has changed when its parent was deleted"
    return play
