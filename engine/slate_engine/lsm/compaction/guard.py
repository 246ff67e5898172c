"""Whether somebody else's compactor seems to be at work, so that taking its place would do harm.

SlateDB runs its compactor inside the writer unless told otherwise, and a writer whose compactor loses its epoch closes
itself, with all its writes. Nothing in storage says that such a writer lives; but a compactor that works leaves traces in
the book of compactions. Our own compactors leave the number of their epoch beside it, and are not taken for strangers: they
give way to a newer one without harm. A stranger who has had nothing to do for long leaves no trace, and is not noticed.
"""

from __future__ import annotations

from slate_engine.errors import InvalidError
from slate_engine.lsm.compaction.commit import Claim, keep_if_there
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.protocol import NotFound

QUIET_SECONDS = 300.0
"""A compactor that has written nothing for so long is taken to be gone."""


class CompactorAlive(InvalidError):
    """A compactor that is not ours was at work a short while ago."""


def name_key(files: DatabaseFiles) -> str:
    return files.paths.under("gc/compactor_epoch")


async def leave_name(files: DatabaseFiles, claim: Claim) -> None:
    """Say that this epoch is ours."""
    await files.store.put(name_key(files), b"%d" % claim.epoch)
    await keep_if_there(files, name_key(files))


async def check_nobody_works(
    files: DatabaseFiles, compactions: CompactionsStore, *, quiet_seconds: float = QUIET_SECONDS
) -> None:
    """Raises :class:`CompactorAlive` if the epoch is a stranger's who has written to the book lately."""
    newest = await compactions.latest()
    epoch = (await files.manifests.read_latest()).value.compactor_epoch
    if newest is None or await _own_epoch(files) == epoch:
        return
    meta = await files.store.head(f"{files.paths.compactions}/{newest.id:020d}.compactions")
    now_ms = files.runtime.now_ms()
    beats = [job.worker.last_heartbeat_ms for job in newest.value.jobs if job.is_active and job.worker is not None]
    silent = (now_ms - max([meta.last_modified_ms, *beats])) / 1000
    if silent < quiet_seconds:
        raise CompactorAlive(
            f"another compactor (epoch {epoch}) was at work on {files.path!r} {max(silent, 0):.0f} s ago. If it is the one "
            "inside a SlateDB writer, taking its place closes that writer: open the database there with compactor_options "
            f"set to null, and try again after {quiet_seconds:g} s of silence. To go ahead at once, because you know that "
            "no such writer runs, force it. To help that compactor instead, run a worker, which takes nobody's place"
        )


async def _own_epoch(files: DatabaseFiles) -> int | None:
    try:
        text = bytes((await files.store.get(name_key(files))).data[:32]).strip()
    except NotFound:
        return None
    return int(text) if text.isdigit() else None
