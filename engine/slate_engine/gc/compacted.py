"""SSTs that no state shows.

An SST is uploaded before a manifest shows it, so that none does is no proof by itself. Its id tells when it was begun, and
that is compared with three times (RFC-0029). Whatever a compaction may still publish is not older than the oldest job in the
compactor's book; whatever a writer may still publish is not older than the newest SST of level 0; and the minimum age is
for those who read without a checkpoint. The book is read *before* the manifest: a compaction that ends in between leaves the
book after it has come into the manifest.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from slate_engine.format.ids import Ids
from slate_engine.gc.inventory import Inventory
from slate_engine.gc.options import Kind, Task
from slate_engine.gc.references import Referenced
from slate_engine.gc.report import Found, Garbage
from slate_engine.lsm.paths import Paths
from slate_engine.state.compactions import Compactions
from slate_engine.state.manifest import Manifest
from slate_engine.state.tombstone import show_second

NEVER = 0
"""The time before which everything is older: nothing may go."""


@dataclass(frozen=True)
class Cutoff:
    """SSTs whose ids are older than ``ms`` were published, or never will be."""

    now_ms: int
    min_age_ms: int
    job_ms: int
    l0_ms: int

    @staticmethod
    def of(now_ms: int, task: Task, book: Compactions | None, newest: Manifest) -> Cutoff:
        return Cutoff(now_ms, int(task.min_age * 1000), oldest_job_ms(book), newest_l0_ms(newest))

    @property
    def aged_ms(self) -> int:
        return self.now_ms - self.min_age_ms

    @property
    def ms(self) -> int:
        return min(self.aged_ms, self.job_ms, self.l0_ms)

    @property
    def reason(self) -> str:
        """Which of the three it is."""
        if self.ms == self.job_ms:
            return (
                "that of the oldest compaction in the book" if self.job_ms else "for there is no compaction in the book"
            )
        if self.ms == self.l0_ms:
            return "that of the newest SST of level 0" if self.l0_ms else "for level 0 has never had an SST"
        return "the minimum age ago"


def oldest_job_ms(book: Compactions | None) -> int:
    """Nothing that a job may publish is older. Without any job it is not known what compactors do."""
    oldest = None if book is None else book.oldest_ms
    return NEVER if oldest is None else oldest


def newest_l0_ms(newest: Manifest) -> int:
    """Nothing that a writer may publish is older."""
    found = newest.trees.newest_l0_ms
    return NEVER if found is None else found


@dataclass(frozen=True)
class Unseen:
    """SSTs that may go: for people, and as a column."""

    found: Found
    ids: Ids


def unseen_ssts(inventory: Inventory, referenced: Referenced, cutoff: Cutoff, paths: Paths) -> Unseen:
    """Those of the inventory that may go, and when the next one will be old enough."""
    unseen = np.flatnonzero(referenced.ssts.find(inventory.ids) < 0)
    ms = inventory.ids.ms[unseen]
    doomed = unseen[ms < cutoff.ms]
    why = f"no state shows it, and its id is from before {show_second(cutoff.ms // 1000)}, {cutoff.reason}"
    ids: Ids = inventory.ids.take(doomed)
    sizes = inventory.sizes[doomed].tolist()
    garbage = [Garbage(Kind.COMPACTED, paths.compacted(id), size, why) for id, size in zip(ids, sizes, strict=True)]
    young = ms[(ms >= cutoff.ms) & (ms < min(cutoff.job_ms, cutoff.l0_ms))]
    return Unseen(Found(garbage, int(young.min()) + cutoff.min_age_ms + 1 if len(young) else None), ids)
