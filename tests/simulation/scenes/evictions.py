"""A database is deleted for good while it is being written: by writers that write, rest, stand still, or have requests on
their way for long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint
from slate_engine.admin.destroying import destroy_hard
from slate_engine.gc.collector import collect_once
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.destroy import InvalidDeletion
from tests.simulation.faults import Role
from tests.simulation.ledger import Fate
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.scenes.compactions import drawn_compactor
from tests.simulation.scenes.crashes import leave_a_log
from tests.simulation.session import PATH, files_of
from tests.simulation.world import Process, World

EAGER = Task(min_age=0)


async def evictions(world: World) -> Play:
    """Of what is asked for when the first object is gone nothing is acknowledged, nor is anything when all are gone. When
    all processes have noticed, nothing is left.

    No process crashes here, and no request goes on without its sender: what arrives when all is gone is deleted by the
    process that sent it, if that lives."""
    play, chance = Play(world), world.chance
    options = _options(chance)
    await leave_a_log(play, options)
    await world.arrivals()
    if chance.random() < 0.5:
        collector = world.process("collector")
        await collector.run(collect_once(files_of(collector), GcOptions(manifests=EAGER)))
    writer = _process(world, "writer")
    is_open = asyncio.Event()
    writing = asyncio.ensure_future(play.in_process(writer, _write(play, writer, options, is_open)))
    compactor = _process(world, "compactor") if chance.random() < 0.3 else None
    if compactor is not None:
        compactor.start(_compact(compactor))
    await is_open.wait()
    await asyncio.sleep(chance.uniform(0.5, 6))
    commits = chance.choice([0, 3])
    asked = acknowledged = 0

    def deleted(keys: Sequence[str]) -> None:
        nonlocal asked
        asked = asked or len(play.ledger.attempts)

    admin = world.process("admin")
    with admin.acting_as(Role.ADMINISTRATOR):
        await admin.run(_destroy(files_of(admin), deleted, commits))
    calm = writer.link.weather is CALM and writer.link.pause_when is None and writer.link.hold_when is None
    if calm and options.manifest_poll_interval == 1.0:
        assert writing.done(), "the writer has not noticed the mark, although it stood there for five polls"
    acknowledged = _acknowledged(play)
    await play.within(600, writing, "noticing that the database is gone")
    late = [each for each in play.ledger.attempts[asked:] if each.fate is Fate.ACKNOWLEDGED]
    assert not late, f"{late} was asked for when the first object was gone, and acknowledged"
    assert _acknowledged(play) == acknowledged, "a row was acknowledged in a database that was gone"
    await asyncio.sleep(120)
    left = [key for key in world.bucket._keys if key.startswith(f"{PATH}/")]
    assert not left, f"of the database {left} is left"
    return play


def _acknowledged(play: Play) -> int:
    return sum(each.fate is Fate.ACKNOWLEDGED for each in play.ledger.attempts)


def _options(chance: random.Random) -> WriterOptions:
    options = drawn_options(chance)
    match chance.randrange(4):
        case 0:
            return replace(options, wal_enabled=False)
        case 1:
            return replace(options, max_parallel_writes=3, flush_interval=0.005)
    return options


def _process(world: World, name: str) -> Process:
    """One that is slow at times: a request takes long, or the whole process stands still."""
    chance = world.chance
    bad = replace(Weather.drawn(chance), late=0.0, twice=0.0, torn=0.0, unanswered=0.0, longest=8.0)
    process = world.process(name, chance.choice([CALM, bad]))
    match chance.randrange(3):
        case 0:
            process.link.pause_when = _now_and_then(chance)
        case 1:
            process.link.hold_when = _now_and_then(chance)
    return process


def _now_and_then(chance: random.Random) -> Callable[[str, str], float]:
    rate, longest = chance.choice([0.02, 0.1]), chance.choice([3.0, 15.0, 40.0])

    def seconds(operation: str, key: str) -> float:
        return chance.uniform(0, longest) if chance.random() < rate else 0.0

    return seconds


async def _write(play: Play, process: Process, options: WriterOptions, is_open: asyncio.Event) -> None:
    session = await play.open(process, options)
    is_open.set()
    pace = play.chance.choice([0.3, 4.0])
    await clients(session, 3, 12, Habits(pace=pace, flushes=0.2))
    # It rests from here on, and finds out by itself.
    await session.writer.until(lambda: session.writer.error is not None)


async def _destroy(files: DatabaseFiles, deleted: Callable[[Sequence[str]], None], commits: int) -> None:
    """Compactors keep what they replace for a while, and a database that is needed is not deleted. Commits just before the
    deletion leave the writer behind: between the manifest that it remembers and the mark there are others."""
    while True:
        for _ in range(commits):
            made = await create_checkpoint(files, CheckpointOptions(lifetime_ms=1000))
            await delete_checkpoint(files, made.id)
        with suppress(InvalidDeletion):
            await destroy_hard(files, deleted)
            return
        await asyncio.sleep(0.5)


async def _compact(process: Process) -> None:
    options = replace(drawn_compactor(process.world.chance), checkpoint_lifetime=1.0)
    compactor = EmbeddedCompactor(files_of(process), options)
    await compactor.start()
