"""Others who change a database while it is written: a compactor, a garbage collector, somebody who makes checkpoints.

The collector is the engine's own. The others do by the rules what the real ones do, as simply as can be, so that writers and
readers meet manifests that change under them and objects that are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from slate_engine.errors import Error
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL
from slate_engine.format.sst_build import build_sst
from slate_engine.gc import collector as gc
from slate_engine.gc.options import GcOptions, Task
from slate_engine.lsm.retain import retain
from slate_engine.lsm.visible import merge_sources
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import with_checkpoint, without_expired_checkpoints
from slate_engine.state.commit import Contended, NothingStored
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.protocol import StoreUnavailable
from tests.simulation.session import files_of
from tests.simulation.world import Process


class Compactor:
    """Merges the oldest SSTs of level 0, sometimes with all runs, into one run. The job is in the book before its output is
    in the bucket, and until the manifest shows that; and what a job replaces is kept for those who still read it."""

    def __init__(self, process: Process, inputs_kept: float = 900.0) -> None:
        self._files = files_of(process)
        self._books = CompactionsStore.open(process.store, self._files.paths.root, process.runtime)
        self._runtime = process.runtime
        self._inputs_kept_ms = int(inputs_kept * 1000)
        self.compactions = 0

    async def compact(self) -> None:
        manifest = (await self._files.manifests.read_latest()).value
        tree = manifest.root
        if not tree.l0:
            return
        chance = self._runtime.random
        inputs = tree.l0[-chance.randint(1, len(tree.l0)) :]
        runs = tree.runs if chance.random() < 0.5 else ()
        job = await self._begin()
        output = await self._merge(manifest, inputs, runs, job)
        # Old runs are oldest, so what takes them in keeps the lowest number; other output is newer than all runs.
        number = runs[-1].id if runs else max((run.id for run in tree.runs), default=-1) + 1

        def commit(old: Manifest) -> Manifest:
            if list(old.root.l0[-len(inputs) :].ids) != list(inputs.ids):
                return old  # an earlier commit of ours has arrived after all, and this job was for nothing
            compacted = replace(
                old.root.without_l0(inputs.ids).without_runs(run.id for run in runs),
                last_compacted_l0_view=inputs.ids[0],
            )
            return old.with_root(compacted.with_run(SortedRun(number, output)) if len(output) else compacted)

        id, now_ms = uuid4(self._runtime), self._runtime.now_ms()
        await self._files.manifests.update(
            lambda old: with_checkpoint(old, id=id, now_ms=now_ms, lifetime_ms=self._inputs_kept_ms)
        )
        await self._files.manifests.update(commit)
        await self._books.update(lambda book: _ended(book).pruned())
        self.compactions += 1

    async def _begin(self) -> Ulid:
        await self._books.create_first(Compactions())
        newest = (await self._books.read_latest()).value.jobs[-1:]
        id = Ulid.new(self._runtime, newest[0].id.ms if newest else 0)
        job = Compaction(id, TieredSpec((), (), 0), CompactionStatus.RUNNING)
        # What is left of an earlier job failed: there is one compactor only.
        await self._books.update(lambda book: _ended(book).pruned().with_job(job) if book.job(id) is None else book)
        return id

    async def _merge(self, manifest: Manifest, inputs: Views, runs: tuple[SortedRun, ...], job: Ulid) -> Views:
        opener = self._files.tables.opener(manifest)
        views = [*inputs, *(view for run in runs for view in run.views)]
        rows, order = merge_sources([await opener(view).rows_in(ALL) for view in views])
        deepest = len(runs) == len(manifest.root.runs)
        kept = retain(
            rows,
            order,
            min_seq=manifest.recent_snapshot_min_seq,
            now_ms=manifest.last_l0_clock_tick,
            deepest=deepest,
        )
        if not len(kept):
            return Tree().l0
        built = build_sst(kept)
        handle = SstHandle(Ulid.new(self._runtime, job.ms), built.info, built.version)
        await self._files.store.put(self._files.paths.compacted(handle.id), built.tobytes())
        return Views.of([SstView(handle.id, handle)])


def _ended(book: Compactions) -> Compactions:
    return replace(book, jobs=tuple(replace(job, status=CompactionStatus.COMPLETED) for job in book.jobs))


class Collector:
    """The engine's own. What is older than ``min_age`` seconds and needed by nobody goes; fences stay."""

    def __init__(self, process: Process, min_age: float) -> None:
        task = Task(min_age=min_age)
        options = GcOptions(manifests=task, wal=task, compacted=task, compactions=task, sweep_interval=60.0)
        self._collector = gc.Collector(files_of(process), options)

    async def collect(self) -> None:
        report = await self._collector.collect()
        for error in report.errors:
            raise error


class Keeper:
    """Makes checkpoints, and lets them expire."""

    def __init__(self, process: Process) -> None:
        self._files = files_of(process)
        self._runtime = process.runtime

    async def keep(self) -> None:
        id, now_ms = uuid4(self._runtime), self._runtime.now_ms()

        def commit(old: Manifest) -> Manifest:
            alive = without_expired_checkpoints(old, now_ms=now_ms)
            return with_checkpoint(alive, id=id, now_ms=now_ms, lifetime_ms=20_000)

        await self._files.manifests.update(commit)


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
