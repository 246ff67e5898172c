"""What is left behind on a store whose conditional writes are decided elsewhere (RFC-0001's two-phase writes).

Writes whose writers died halfway are finished in every pass, which costs a query of the records that are not committed. What
is to be deleted is found by listing everything, so that is done as rarely as a sweep.
"""

from __future__ import annotations

from collections.abc import Iterator

from slate_engine.gc.options import Kind, Task
from slate_engine.gc.report import Garbage, KindReport
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.store.two_phase import TwoPhaseStore
from slate_engine.store.two_phase.recovery import Collected


class Leftovers:
    """Those of one database, in the store that holds it, and in that of its log."""

    def __init__(self, files: DatabaseFiles) -> None:
        root = files.paths.root
        self._prefix = f"{root}/" if root else ""
        self._stores = [
            store for store in dict.fromkeys((files.store, files.wal_store)) if isinstance(store, TwoPhaseStore)
        ]
        self._swept_ms: int | None = None

    async def collect(self, task: Task, now_ms: int, sweep_interval: float) -> KindReport:
        """In a dry run nothing is finished either."""
        if not self._stores:
            return KindReport(Kind.TWO_PHASE, dry_run=task.dry_run)
        garbage: list[Garbage] = []
        if not task.dry_run:
            for store in self._stores:
                await store.recover(self._prefix)
        if self._swept_ms is None or not 0 <= now_ms - self._swept_ms < sweep_interval * 1000:
            for store in self._stores:
                garbage += _told(
                    await store.collect(older_than=task.min_age, prefix=self._prefix, dry_run=task.dry_run)
                )
            self._swept_ms = now_ms
        return KindReport(Kind.TWO_PHASE, garbage, task.dry_run)


def _told(done: Collected) -> Iterator[Garbage]:
    """They have no names worth telling, only numbers."""
    counts = (
        ("temporaries", done.temporaries, done.temporary_bytes, "writers put them, and died before they used them"),
        ("records", done.records, 0, "the objects that they are about are deleted"),
        ("withdrawn writes", done.withdrawn, 0, "their writers died, and what they were to write is gone"),
    )
    for what, count, size, why in counts:
        if count:
            yield Garbage(Kind.TWO_PHASE, f"{count} {what}", size, why)
