"""Others who change a database while it is written: a compactor, a garbage collector, somebody who makes checkpoints.

They do by the rules what the real ones do, as simply as can be, so that writers and readers meet manifests that change
under them and objects that are gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from slate_engine.errors import Error
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL
from slate_engine.format.sst_build import build_sst
from slate_engine.lsm.retain import retain
from slate_engine.lsm.visible import merge_sources
from slate_engine.runtime import uuid4
from slate_engine.state.checkpoints import with_checkpoint, without_expired_checkpoints
from slate_engine.state.commit import Contended, NothingStored
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.boundary import Boundary
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import StoreUnavailable
from tests.simulation.session import files_of
from tests.simulation.world import Process


class Compactor:
    """Merges the oldest SSTs of level 0, sometimes with all runs, into one run."""

    def __init__(self, process: Process) -> None:
        self._files = files_of(process)
        self._runtime = process.runtime
        self.compactions = 0

    async def compact(self) -> None:
        manifest = (await self._files.manifests.read_latest()).value
        tree = manifest.root
        if not tree.l0:
            return
        chance = self._runtime.random
        inputs = tree.l0[-chance.randint(1, len(tree.l0)) :]
        runs = tree.runs if chance.random() < 0.5 else ()
        output = await self._merge(manifest, inputs, runs)
        # Old runs are oldest, so what takes them in keeps the lowest number; other output is newer than all runs.
        number = runs[-1].id if runs else max((run.id for run in tree.runs), default=-1) + 1

        def commit(old: Manifest) -> Manifest:
            kept = old.root.l0[-len(inputs) :]
            assert list(kept.ids) == list(inputs.ids), "somebody else has compacted level 0"
            compacted = replace(
                old.root.without_l0(inputs.ids).without_runs(run.id for run in runs),
                last_compacted_l0_view=inputs.ids[0],
            )
            return old.with_root(compacted.with_run(SortedRun(number, output)) if len(output) else compacted)

        await self._files.manifests.update(commit)
        self.compactions += 1

    async def _merge(self, manifest: Manifest, inputs: Views, runs: tuple[SortedRun, ...]) -> Views:
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
        handle = SstHandle(Ulid.new(self._runtime), built.info, built.version)
        await self._files.store.put(self._files.paths.compacted(handle.id), built.tobytes())
        return Views.of([SstView(handle.id, handle)])


class Collector:
    """Deletes old manifests and WAL files that nobody needs any more: the boundary first, and fences never."""

    def __init__(self, process: Process, min_age: float) -> None:
        self._files = files_of(process)
        self._runtime = process.runtime
        self._min_age_ms = int(min_age * 1000)
        paths = self._files.paths
        boundary = Boundary(process.store, paths.root, "manifest", process.runtime)
        self._manifests = NumberedObjects(process.store, paths.manifest, "manifest", boundary, process.runtime)

    async def collect(self) -> None:
        old = self._runtime.now_ms() - self._min_age_ms
        newest = await self._files.manifests.read_latest()
        kept = {checkpoint.manifest_id for checkpoint in newest.value.checkpoints} | {newest.id}
        entries = await self._manifests.list(last=newest.id - 1)
        gone = [entry.id for entry in entries if entry.id not in kept and entry.meta.last_modified_ms < old]
        if gone:
            await self._manifests.advance_boundary(gone[-1])
            await self._manifests.delete(gone)
        await self._collect_wal(newest.value, old)

    async def _collect_wal(self, newest: Manifest, old: int) -> None:
        needed: list[range] = []
        for checkpoint in newest.checkpoints:
            manifest = await self._files.manifests.read(checkpoint.manifest_id)
            needed.append(range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1))
        doomed: list[str] = []
        async for page in self._files.store.list(self._files.paths.wal_directory + "/"):
            for meta in page:
                id = int(meta.key.rpartition("/")[2].partition(".")[0])
                old_enough = meta.size and meta.last_modified_ms < old and id < newest.replay_after_wal_id
                if old_enough and not any(id in ids for ids in needed):
                    doomed.append(meta.key)
        if doomed:
            await self._files.store.delete(doomed)


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
