"""What in a bucket tells that processes use a database, for a user who is about to delete it."""

from __future__ import annotations

from collections.abc import Sequence

from slate_engine.admin.ownership import owner_of
from slate_engine.admin.parents import newest_or_none
from slate_engine.errors import Error
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.protocol import ObjectMeta

RECENT = 300.0
"""What is older than so many seconds tells nothing of the present."""


async def signs_of_life(files: DatabaseFiles, objects: Sequence[ObjectMeta]) -> list[str]:
    """One sentence for each sign, the plainest first. None proves that nothing runs: a reader, and a writer that has nothing
    to write, leave no sign."""
    kinds = {
        "a writer stored a WAL file": f"{files.paths.wal_directory}/",
        "a compactor wrote its list of compactions": f"{files.paths.compactions}/",
        "a writer, a compactor or a reader committed a manifest": f"{files.paths.manifest}/",
        "a collector or the admin API wrote to gc/": files.paths.under("gc/"),
    }
    signs = [f"{what} {ago}" for what, prefix in kinds.items() if (ago := _latest(files, objects, prefix)) is not None]
    return [*await _owner(files), *await _workers(files), *signs]


def _latest(files: DatabaseFiles, objects: Sequence[ObjectMeta], prefix: str) -> str | None:
    return _ago(files, max((meta.last_modified_ms for meta in objects if meta.key.startswith(prefix)), default=0))


def _ago(files: DatabaseFiles, ms: int) -> str | None:
    seconds = max(0.0, (files.runtime.now_ms() - ms) / 1000)
    return f"{seconds:.0f} s ago" if seconds <= RECENT else None


async def _owner(files: DatabaseFiles) -> list[str]:
    try:
        owner = await owner_of(files)
    except Error:
        return []  # what cannot be read is deleted all the same
    if owner is None or owner.released:
        return []
    return [f"the operator manages it as SlateDatabase {owner.namespace}/{owner.name}: delete that object instead"]


async def _workers(files: DatabaseFiles) -> list[str]:
    try:
        book = await newest_or_none(CompactionsStore.open(files.store, files.paths.root, files.runtime))
    except Error:
        return []
    workers = {} if book is None else {job.worker.id: job.worker for job in book.value.jobs if job.worker is not None}
    return [
        f"worker {each.id} said that it merges {ago}"
        for each in workers.values()
        if (ago := _ago(files, each.last_heartbeat_ms)) is not None
    ]
