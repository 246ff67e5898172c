"""Several compactions at once, of which a slow one ends long after others that were begun later.

What the slow one has written by then is in no manifest, and older than all around it: the jobs that have ended, and level 0.
Nothing but its own entry in the book keeps collectors from it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

from slate_engine.errors import Error
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.plan import SizeTiered
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.state.stores import CompactionsStore
from tests.simulation.faults import Role
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.scenes.compactions import collecting, drawn_compactor
from tests.simulation.scenes.submissions import submitting
from tests.simulation.session import PATH, files_of
from tests.simulation.world import Process, World

SOME_SLOW = Weather(slow=0.06, longest=12.0, applies=lambda operation, key: "put" in operation and "/compacted/" in key)
"""In which most uploads take no time, and a few longer than whole compactions."""


async def backlogs(world: World) -> Play:
    """A writer that flushes all the time; a compactor that may have several jobs at once, more of which somebody asks for;
    a worker elsewhere, whose clock may be behind; and a collector that waits for nobody."""
    play, chance = Play(world), world.chance
    options = replace(drawn_options(chance), l0_sst_size_bytes=60, manifest_poll_interval=1.0)
    writer, compactor = world.process("writer"), world.process("compact", SOME_SLOW)
    helper = world.process("help", SOME_SLOW, skew_ms=chance.choice([0, -2000]))
    play.beside("collect", CALM, collecting, 0.3, slower=1.0)
    play.beside("submit", CALM, submitting, 1.0, slower=1.0)
    opened, written = asyncio.Event(), asyncio.Event()

    async def write() -> None:
        session = await play.open(writer, options)
        opened.set()
        await clients(session, 2, 18, Habits(pace=2.0, flushes=0.6))
        await session.close()
        written.set()

    writing = writer.start(write())
    await opened.wait()
    await asyncio.gather(
        writing,
        compactor.run(_compact(compactor, _drawn(play), written)),
        helper.run(_help(helper, _drawn(play), written)),
    )
    return await play.finish(options)


def _drawn(play: Play) -> CompactorOptions:
    """Many small SSTs, stored one after the other: those of a slow job have been there for long when it ends."""
    chance, options = play.chance, drawn_compactor(play.chance)
    assert options.worker is not None
    merge = replace(options.worker.merge, max_sst_size=chance.choice([1, 100]), max_subcompactions=1)
    return replace(
        options,
        policy=SizeTiered(2, 3, include_size_threshold=chance.choice([4.0, 100.0])),
        worker=replace(options.worker, merge=merge),
        poll_interval=0.3,
        enable_trivial_move=False,
    )


async def _compact(process: Process, options: CompactorOptions, written: asyncio.Event) -> None:
    """With a worker beside it or without, so that the one elsewhere has something to do."""
    errors: list[Error] = []
    worker = process.runtime.random.choice([options.worker, options.worker, None])
    compactor = EmbeddedCompactor(files_of(process), replace(options, worker=worker), failed=errors.append)
    process.acts_as(Role.COMPACTOR)
    await compactor.start()
    await written.wait()
    await compactor.close()
    assert not errors, f"a compactor stopped: {errors[0].message}"


async def _help(process: Process, options: CompactorOptions, written: asyncio.Event) -> None:
    files = files_of(process)
    assert options.worker is not None
    worker = CompactionWorker(files, CompactionsStore.open(files.store, PATH, files.runtime), options.worker)
    process.acts_as(Role.WORKER)
    worker.start()
    await written.wait()
    await worker.close()
