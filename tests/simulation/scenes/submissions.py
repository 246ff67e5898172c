"""Compactions that somebody asks for by hand, and by what he saw a while ago."""

from __future__ import annotations

import random

from slate_engine.format.ids import Ulid
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tree import Tree
from tests.simulation.play import Work
from tests.simulation.session import files_of
from tests.simulation.world import Process


def submitting(process: Process, of: DatabaseFiles | None = None) -> Work:
    """Some make sense no more when a coordinator comes to look at them, and some never did."""
    files, chance = of or files_of(process), process.runtime.random
    books = CompactionsStore.open(files.store, files.paths.root, files.runtime)

    async def submit() -> None:
        newest = await files.manifests.latest()
        if newest is None or await books.latest() is None:
            return
        spec = _asked_for(newest.value.root, chance)
        await process.runtime.sleep(chance.uniform(0, 6))
        if spec is not None:
            await books.update(lambda book: with_asked_for(book, spec, process))

    return submit


def _asked_for(tree: Tree, chance: random.Random) -> TieredSpec | None:
    views, runs = tuple(tree.l0.ids), tuple(run.id for run in tree.runs)
    fresh = max(runs, default=-1) + 1
    match chance.randrange(5):
        case 0 if views:
            return TieredSpec(views, runs, runs[-1] if runs else fresh)
        case 1 if len(views) > 1:
            return TieredSpec(views[:-1], (), fresh)  # what is older would be lost
        case 2 if len(runs) > 1:
            return TieredSpec((), runs[:2], runs[1])
        case 3 if views and len(runs) > 1:
            return TieredSpec(views, runs[1:], runs[-1])  # a run lies in between
        case 4 if len(views) > 1:
            return TieredSpec(views[chance.randrange(1, len(views)) :], (), fresh)  # a part, as it may be
        case _:
            return None


def with_asked_for(book: Compactions, spec: TieredSpec, process: Process) -> Compactions:
    newest_ms = max((job.id.ms for job in book.jobs), default=0)
    return book.with_job(Compaction(Ulid.new(process.runtime, newest_ms), spec, CompactionStatus.SUBMITTED))
