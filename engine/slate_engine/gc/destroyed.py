"""Softly destroyed databases whose grace period is over."""

from __future__ import annotations

import math
from dataclasses import dataclass

from slate_engine.admin.destroying import destroy_hard, listed, read_time, write_time
from slate_engine.gc.options import Kind, Task
from slate_engine.gc.report import Deleted, Garbage, KindReport
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.destroy import RETURN_S, BeingUndeleted, BroughtBack, InvalidDeletion, active_checkpoints
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import Tombstone, show_second


@dataclass(frozen=True)
class Fate:
    """What became of a destroyed database, or would in earnest: everything that went with it, or why it stays."""

    report: KindReport
    waiting: str | None = None


async def collect_destroyed(files: DatabaseFiles, newest: Manifest, task: Task | None, deleted: Deleted) -> Fate:
    """Delete the database if its time has come."""
    if task is None:
        return Fate(KindReport(Kind.DESTROYED), "it is destroyed, and collecting destroyed databases is switched off")
    waiting, why = await _judge(files, newest, task)
    if waiting is not None:
        return Fate(KindReport(Kind.DESTROYED, dry_run=task.dry_run), waiting)
    garbage = [Garbage(Kind.DESTROYED, meta.key, meta.size, why) for meta in await listed(files)]
    if not task.dry_run:
        tombstone = Tombstone.of(newest)
        assert tombstone is not None
        try:
            await destroy_hard(
                files,
                lambda keys: deleted(Kind.DESTROYED, len(keys)),
                destroyed_at_s=tombstone.destroyed_at_s,
            )
        except (InvalidDeletion, BeingUndeleted, BroughtBack) as refused:
            # Somebody made a checkpoint since we looked, or would have it back, or has it; the database is whole.
            return Fate(KindReport(Kind.DESTROYED), str(refused))
    return Fate(KindReport(Kind.DESTROYED, garbage, task.dry_run))


async def _judge(files: DatabaseFiles, newest: Manifest, task: Task) -> tuple[str | None, str]:
    """Why it has to wait; and if it has not, why it goes."""
    tombstone = Tombstone.of(newest)
    assert tombstone is not None
    if tombstone.deleting:
        return None, "somebody began to delete the database for good, and did not come to the end"
    written = await read_time(files)
    if written is None and not task.dry_run:
        # Whoever destroyed it did not come to the end; what the manifest says is as good.
        await write_time(files, tombstone.destroyed_at_s)
    # The later one of two times: a number that was left by an earlier life of the database must not shorten the grace.
    since = max(tombstone.destroyed_at_s, written or 0)
    if math.isinf(task.min_age):
        return f"it was destroyed at {show_second(since)}, and stays until somebody deletes it for good", ""
    until = since + task.min_age
    now_ms = files.runtime.now_ms()
    if now_ms < until * 1000:
        return f"it was destroyed at {show_second(since)}, and can be undeleted until {show_second(int(until))}", ""
    active = active_checkpoints(newest, now_ms=now_ms)
    if active:
        return str(InvalidDeletion(active)), ""
    return (
        None,
        f"the database was destroyed at {show_second(since)}, and its grace is over since {show_second(int(until))}",
    )


async def delete_lone_boundaries(files: DatabaseFiles) -> None:
    """Delete boundaries that are all there is of a database. A collector's request to advance one may arrive when the
    database is gone, and the next database at this path could not be opened. What is young may belong to a deletion that is
    still under way, or be the first object of a new database."""
    paths, before_ms = files.paths, files.runtime.now_ms() - 1000 * RETURN_S
    boundaries = {paths.boundary("manifest"), paths.boundary("compactions")}
    found = [meta async for page in files.store.list(paths.under("gc/")) for meta in page]
    if not found or any(meta.key not in boundaries or meta.last_modified_ms >= before_ms for meta in found):
        return
    folders = [(files.store, folder) for folder in (paths.manifest, paths.compactions, paths.compacted_directory)]
    for store, folder in [*folders, (files.log_store, paths.wal_directory)]:
        async for page in store.list(f"{folder}/"):
            if page:
                return
    await files.store.delete([meta.key for meta in found])
