"""Going back to a checkpoint in place, while whoever wrote the database sleeps, and by processes that crash."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from uuid import UUID

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.admin.restoring import RestoreOptions, restore
from slate_engine.errors import Error
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.commit import take_epoch
from slate_engine.lsm.compaction.coordinator import Coordinator
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.compaction.worker import CompactionWorker
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.state.compactions import TieredSpec
from slate_engine.state.stores import CompactionsStore
from tests.simulation.actors import WORKER, Collector, Compactor
from tests.simulation.ledger import Fate, Seen
from tests.simulation.network import CALM
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.scenes.crashes import leave_a_log
from tests.simulation.scenes.destroys import insist
from tests.simulation.scenes.gc import INPUTS_KEPT
from tests.simulation.scenes.submissions import with_asked_for
from tests.simulation.session import Session, files_of, read_all
from tests.simulation.world import Process, World

THEN, BEFORE = UUID(int=1, version=4), UUID(int=2, version=4)
SLEEP = 200.0


async def restores(world: World) -> Play:
    """The database is what it was then, and what it was before is a checkpoint. Nobody who wrote it before has a commit
    acknowledged afterwards; sequence numbers go on; a garbage collector that waits for nobody takes nothing of either."""
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    await leave_a_log(play, options)
    writer = world.process("writer")
    session: Session | None = None

    async def begin() -> None:
        nonlocal session
        session = await play.open(writer, options)
        await clients(session, 2, 4, Habits(pace=0.3, flushes=0.3))
        await session.flush()

    await writer.run(begin())
    assert session is not None
    if chance.random() < 0.7:
        early = world.process("early")
        await early.run(Compactor(early, INPUTS_KEPT).compact())
    await insist(world, _keep)
    play.beside("compact", CALM, lambda process: Compactor(process, INPUTS_KEPT).compact, 2.0, 1.02)
    play.beside("collect", CALM, lambda process: Collector(process, 0.0).collect, 1.0, 1.02)
    reader = world.process("reader")
    then = await reader.run(_kept(reader, THEN))
    await writer.run(clients(session, 2, 3, Habits(pace=0.3, flushes=0.3, waits=1.0)))
    await writer.run(session.flush())
    before = await reader.run(_present(reader))
    writer.pause(SLEEP)
    late = writer.start(_ghost(session))
    if chance.random() < 0.7:
        merging = world.process("merging")
        await merging.run(_leave_a_result(merging))
    await insist(world, _restore)
    await asyncio.sleep(chance.uniform(0, 20))
    assert await reader.run(_present(reader)) == then, "the database is not what it was then"
    assert await reader.run(_kept(reader, BEFORE)) == before, "what it was before is not kept"
    asked = len(play.ledger.attempts)
    last_seq = max(seq for _, seq in before.rows.values())
    if chance.random() < 0.5:
        await _wake_up(late)
    heir = await _go_on(play, last_seq)
    await _wake_up(late)
    ghosts = [each for each in play.ledger.attempts[asked:] if each.session is session.tenure]
    acknowledged = [each for each in ghosts if each.fate is Fate.ACKNOWLEDGED]
    assert not acknowledged, f"{acknowledged} came from a past that is over"
    seen = await reader.run(_present(reader))
    assert seen.rows == {**then.rows, **heir}, "the database does not go on from what it was then"
    assert await reader.run(_kept(reader, BEFORE)) == before, "what it was before is not kept any more"
    return play


async def _go_on(play: Play, last_seq: int) -> dict[bytes, tuple[bytes, int]]:
    """A new writer. No number stands for two commits, not even for one that is only in a checkpoint."""
    process = play.world.process("heir")

    async def write() -> dict[bytes, tuple[bytes, int]]:
        writer = await Writer.open(files_of(process), drawn_options(play.chance))
        commit = await writer.write([Change(b"heir", b"1")])
        assert commit.seq > last_seq, f"the new writer gives out {commit.seq} again, the old one came to {last_seq}"
        await commit.durable()
        await writer.flush_memtable()
        await writer.close()
        return {b"heir": (b"1", commit.seq)}

    return await process.run(write())


async def _wake_up(ghost: asyncio.Task[None]) -> None:
    with suppress(Error, TimeoutError):
        await asyncio.wait_for(asyncio.shield(ghost), 2 * SLEEP)


async def _ghost(session: Session) -> None:
    await session.write([Change(b"ghost", b"1")])


async def _keep(files: DatabaseFiles) -> None:
    await create_checkpoint(files, CheckpointOptions(id=THEN, whole_log=True))


async def _restore(files: DatabaseFiles) -> None:
    await restore(files, THEN, RestoreOptions(keep_id=BEFORE))


async def _leave_a_result(process: Process) -> None:
    """A compactor merges the oldest run alone, and is gone before it commits what came of it."""
    files = files_of(process)
    books = CompactionsStore.open(files.store, files.paths.root, files.runtime)
    runs = (await files.manifests.read_latest()).value.root.runs
    if not runs:
        return
    with suppress(Error, TimeoutError):  # another compactor has taken over
        coordinator = Coordinator(files, books, await take_epoch(files, books), CompactorOptions(worker=None))
        spec = TieredSpec((), (runs[-1].id,), runs[-1].id)
        await books.update(lambda book: with_asked_for(book, spec, process))
        await coordinator.turn(plan=False)
        merged = asyncio.Event()
        worker = CompactionWorker(files, books, WORKER, finished=merged.set)
        if await worker.claim():
            await asyncio.wait_for(merged.wait(), 60)
        await worker.close()


async def _kept(process: Process, id: UUID) -> Seen:
    return await read_all(await files_of(process).checkpoint(id))


async def _present(process: Process) -> Seen:
    return await read_all(await files_of(process).latest())
