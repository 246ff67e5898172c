"""Manifests and compactions that nothing refers to any more.

All but the newest may go once they are old enough and no checkpoint keeps them. The boundary is advanced first: from then on
no stalled writer can create one of them anew and take that for success (RFC-0026).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from slate_engine.gc.options import Kind, Task
from slate_engine.gc.report import Found, Garbage
from slate_engine.store.numbered import Entry


def old_versions(
    kind: Kind, entries: Sequence[Entry], newest_id: int, held: Collection[int], task: Task, now_ms: int
) -> Found:
    """Those of a listing that may go. What is ``held`` is held as of ``newest_id``: a checkpoint that is made later keeps a
    later state, or one of these, so what came before and is not among them will not be wanted again."""
    garbage: list[Garbage] = []
    ripe: list[int] = []
    for entry in entries:
        if entry.id >= newest_id or entry.id in held:
            continue
        ripe_ms = entry.meta.last_modified_ms + int(task.min_age * 1000)
        if ripe_ms < now_ms:
            age = (now_ms - entry.meta.last_modified_ms) // 1000
            why = f"number {newest_id} is the newest, no checkpoint keeps this one, and it is {age} s old"
            garbage.append(Garbage(kind, entry.meta.key, entry.meta.size, why))
        else:
            ripe.append(ripe_ms)
    return Found(garbage, min(ripe, default=None))


def number_of(garbage: Garbage) -> int:
    return int(garbage.name.rpartition("/")[2].partition(".")[0])
