"""Others who work on a database while it is written: a compactor, a garbage collector, somebody who makes checkpoints.

Each is the engine's own code. What is ours is only when they come, and how little they wait for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.errors import Error, Fenced
from slate_engine.gc import collector as gc
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.compaction.compactor import compact_once
from slate_engine.lsm.compaction.options import CompactorOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Leveled, Major, Policy, SizeTiered
from slate_engine.state.commit import Contended, NothingStored
from slate_engine.store.protocol import StoreUnavailable
from tests.simulation.faults import Role
from tests.simulation.session import files_of
from tests.simulation.world import Process

POLICIES: list[Policy] = [SizeTiered(2, 3), Leveled(min_l0=1, fanout=2.0), Major()]
WORKER = WorkerOptions(max_threads=2, compactions_poll_interval=1.0, heartbeat_interval=1.0)


class Compactor:
    """The engine's own coordinator and worker, which come for one look at the database, do what one policy or another wants
    of it, and go. ``inputs_kept`` is for how many seconds what a job replaces is kept for those who still read it."""

    def __init__(self, process: Process, inputs_kept: float = 900.0) -> None:
        self._files = files_of(process)
        self._chance = process.runtime.random
        self._options = CompactorOptions(worker=WORKER, checkpoint_lifetime=inputs_kept, enable_trivial_move=True)
        process.acts_as(Role.COMPACTOR)

    async def compact(self) -> None:
        policy = self._chance.choice(POLICIES)
        found = (await self._files.manifests.read_latest()).value
        if not found.root.l0:
            return
        try:
            await compact_once(self._files, policy, self._options, force=True)
        except Fenced:
            # As by who restores the database; by nobody, that would be wrong.
            if (await self._files.manifests.read_latest()).value.compactor_epoch == found.compactor_epoch + 1:
                raise


class Collector:
    """The engine's own. What is older than ``min_age`` seconds and needed by nobody goes; fences stay."""

    def __init__(self, process: Process, min_age: float) -> None:
        task = Task(min_age=min_age)
        options = GcOptions(manifests=task, wal=task, compacted=task, compactions=task, sweep_interval=60.0)
        self._collector = gc.Collector(files_of(process), options)
        process.acts_as(Role.COLLECTOR)
        process.world.collects_after(min_age)

    async def collect(self) -> None:
        report = await self._collector.collect()
        for error in report.errors:
            raise error


class Keeper:
    """Makes checkpoints, and lets them expire."""

    def __init__(self, process: Process) -> None:
        process.acts_as(Role.KEEPER)
        self._files = files_of(process)

    async def keep(self) -> None:
        await create_checkpoint(self._files, CheckpointOptions(lifetime_ms=20_000))


async def now_and_then(
    process: Process, work: Callable[[], Awaitable[None]], seconds: float, slower: float = 1.3
) -> None:
    """Do some work again and again, whatever the weather; at first often, then ever more rarely: when a play goes on for
    long, then because somebody waits for something that takes long."""
    while True:
        await asyncio.sleep(process.runtime.uniform(0, 2 * seconds))
        seconds *= slower
        try:
            await work()
        except (StoreUnavailable, Contended, NothingStored):
            continue
        except Error as error:
            raise AssertionError(f"{process.name} cannot do its work: {error.message}") from error
