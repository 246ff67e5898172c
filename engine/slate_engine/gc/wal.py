"""WAL files that no state replays any more, and the empty ones among them, which are fences.

A fence stands where a writer was shut out. Deleting one lets a writer that has stalled ever since create the file after all,
and acknowledge rows that nobody will read; so fences stay unless somebody knows that there is no such writer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slate_engine.gc.options import Kind, Task
from slate_engine.gc.references import Referenced
from slate_engine.gc.report import Found, Garbage
from slate_engine.lsm.paths import Paths
from slate_engine.store.protocol import ObjectMeta, ObjectStore


class WalFile(NamedTuple):
    id: int
    meta: ObjectMeta

    @property
    def is_fence(self) -> bool:
        return self.meta.size == 0


async def list_wal(store: ObjectStore, paths: Paths, before: int) -> list[WalFile]:
    """All WAL files with numbers below this one; what is named otherwise is none."""
    directory = paths.wal_directory + "/"
    found: list[WalFile] = []
    async for page in store.list(directory):
        for meta in page:
            number = wal_number(meta.key[len(directory) :])
            if number is None:
                continue
            if number >= before:
                return found
            found.append(WalFile(number, meta))
    return found


def wal_number(file: str) -> int | None:
    stem = file.partition(".")[0]
    return int(stem) if stem.isascii() and stem.isdecimal() else None


def replayed_files(kind: Kind, files: Sequence[WalFile], referenced: Referenced, task: Task, now_ms: int) -> Found:
    """Those that may go: the empty ones if ``kind`` is of fences, the others if not."""
    garbage: list[Garbage] = []
    ripe: list[int] = []
    for file in files:
        if file.is_fence != (kind is Kind.FENCES) or referenced.needs_wal(file.id):
            continue
        ripe_ms = file.meta.last_modified_ms + int(task.min_age * 1000)
        if ripe_ms < now_ms:
            age = (now_ms - file.meta.last_modified_ms) // 1000
            what = "a fence" if file.is_fence else "all its rows are in SSTs"
            why = f"{what}: replay begins at {referenced.newest.replay_after_wal_id}, and it is {age} s old"
            garbage.append(Garbage(kind, file.meta.key, file.meta.size, why))
        else:
            ripe.append(ripe_ms)
    return Found(garbage, min(ripe, default=None))
