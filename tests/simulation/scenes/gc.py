"""Collectors that wait for nothing, beside everybody whom they could harm."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field, replace
from uuid import UUID

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint, delete_checkpoint
from slate_engine.format.ids import Ulid
from slate_engine.gc.collector import collect_once
from slate_engine.gc.compacted import Cutoff
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.checkpoints import without_checkpoint
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from tests.simulation.actors import Collector, Compactor, Keeper
from tests.simulation.faults import Role
from tests.simulation.ledger import Seen
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Habits, Play, Work, clients, drawn_options
from tests.simulation.session import PATH, files_of, read_all
from tests.simulation.world import Process, World

NOW = Task(min_age=0)
AT_ONCE = GcOptions(manifests=NOW, wal=NOW, compacted=NOW, compactions=NOW)
SLOW_COMMITS = Weather(slow=0.4, longest=3.0, applies=lambda operation, key: operation == "put" and "/manifest/" in key)
SLOW_LOOKS = Weather(slow=0.4, longest=3.0, applies=lambda operation, key: operation == "get" and "/manifest/" in key)
INPUTS_KEPT = 30.0
"""For so long a writer may read what a compaction has replaced; it looks for newer states much more often."""


@dataclass
class Witness:
    """Makes checkpoints, and reads each again and again: it must show what it showed at first. Some are given up."""

    play: Play
    kept: dict[UUID, Seen] = field(default_factory=dict)

    def looking(self, process: Process) -> Work:
        files, chance = files_of(process), process.runtime.random
        process.acts_as(Role.KEEPER)

        async def look() -> None:
            if chance.random() < 0.5:
                made = await create_checkpoint(files, CheckpointOptions(whole_log=chance.random() < 0.5))
                self.kept[made.id] = seen = await read_all(await files.checkpoint(made.id))
                self.play.ledger.judge("a checkpoint", seen)
            elif self.kept:
                await self.check(files, chance.choice(list(self.kept)))
            if self.kept and chance.random() < 0.2:
                id = chance.choice(list(self.kept))
                del self.kept[id]
                await delete_checkpoint(files, id)

        return look

    async def check(self, files: DatabaseFiles, id: UUID) -> None:
        seen = await read_all(await files.checkpoint(id))
        assert seen == self.kept[id], f"checkpoint {id} shows another state than at first"


async def collectors(world: World) -> Play:
    """One or two collectors without a minimum age, in any weather, run beside writers that come and go, a compactor, a
    reader with leases, and somebody with checkpoints. When in the end the checkpoints go, so does all that they kept."""
    play, chance = Play(world), world.chance
    options = replace(
        drawn_options(chance),
        manifest_poll_interval=chance.choice([0.5, 2.0]),
        l0_sst_size_bytes=chance.choice([60, 200]),
    )
    play.beside("compact", _drawn(chance), lambda process: Compactor(process, INPUTS_KEPT).compact, 0.3, 1.0)
    play.reader("watch", managed=True)
    witness = Witness(play)
    play.beside("witness", CALM, witness.looking, 0.5, 1.1)
    play.beside("keep", CALM, lambda process: Keeper(process).keep, 2.0)
    for number in range(chance.randint(1, 2)):
        collector = play.beside(f"collect{number}", _drawn(chance), _eager, 0.2, 1.05)
        if chance.random() < 0.3:
            collector.doom(1, 60)
    for _ in range(chance.randint(2, 3)):
        process = world.process(weather=chance.choice([CALM, SLOW_COMMITS]), skew_ms=chance.choice([0, 0, -2000, 2000]))
        if chance.random() < 0.5:
            process.doom(20, 120)
        await play.in_process(process, _reign(play, process, options))
        process.crash()
    await play.finish(options)
    files = files_of(world.process("cleaner"))
    for id in witness.kept:
        await witness.check(files, id)
    await _check_collected(world, files)
    return play


async def _reign(play: Play, process: Process, options: WriterOptions) -> None:
    session = await play.open(process, options)
    await clients(session, 2, 6, Habits(pace=0.5, flushes=0.6, reads=0.2))
    await session.close()


def _drawn(chance: random.Random) -> Weather:
    """Any weather; and often one in which others get ahead between two steps."""
    return Weather.drawn(chance) if chance.random() < 0.4 else chance.choice([SLOW_COMMITS, SLOW_LOOKS])


def _eager(process: Process) -> Work:
    return Collector(process, 0.0).collect


async def _check_collected(world: World, files: DatabaseFiles) -> None:
    """Without checkpoints, and after a while, nothing is left but what the newest state needs, or what may still be
    published for all that a collector can know."""

    def without_any(old: Manifest) -> Manifest:
        for checkpoint in old.checkpoints:
            old = without_checkpoint(old, checkpoint.id)
        return old

    await files.manifests.update(without_any)
    await asyncio.sleep(10)
    report = await collect_once(files, AT_ONCE)
    assert not report.errors, report.errors
    newest = await files.manifests.read_latest()
    book = await CompactionsStore.open(files.store, files.paths.root, files.runtime).latest()
    cutoff = Cutoff.of(files.runtime.now_ms(), NOW, None if book is None else book.value, newest.value)
    shown = {str(id) for id in newest.value.ssts.id}
    for key, (found, _) in world.bucket._objects.items():
        folder, _, stem = key.removeprefix(f"{PATH}/").partition("/")
        name = stem.partition(".")[0]
        match folder:
            case "manifest":
                assert int(name) == newest.id, f"{key} is left"
            case "compactions":
                assert book is not None
                assert int(name) == book.id, f"{key} is left"
            case "wal":
                live = int(name) >= newest.value.replay_after_wal_id
                assert live or not found.meta.size, f"{key} is left"
            case "compacted":
                assert name in shown or Ulid.parse(name).ms >= cutoff.ms, f"{key} is left"
