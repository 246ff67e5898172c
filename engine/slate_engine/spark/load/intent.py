"""What is settled before the first task of a load begins, and holds until its commit.

*The sequence number.* Rows carry theirs in the SSTs, long before anybody knows when the load will be committed. So it is
taken from far ahead: a writer that goes on meanwhile does not come near it, and when the load is committed its rows are the
newest, as those of any commit are. It is settled here, once, so every attempt of every task gives the same one.

*The names.* A garbage collector, the original's as well as ours, deletes an SST that no manifest shows once the time in its
name is older than its minimum age, than the newest SST of level 0 and than the oldest compaction in the book. The time in
the names of a load is that by which it must be committed. Until then nobody takes them for garbage, however long the load
lasts and whatever is flushed and compacted beside it, and though there may be nothing alive that could renew a promise. What
a load that died has left is garbage like any other afterwards. SSTs of sorted runs may bear such names: the rule that
nothing may be from the future is one about level 0, whose newest SST is a mark for others.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import SstOptions
from slate_engine.lsm.compaction.guard import check_nobody_works
from slate_engine.lsm.compaction.options import sst_options_of
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_frontier
from slate_engine.lsm.tenure import Tenure
from slate_engine.spark.load.options import LoadOptions
from slate_engine.spark.options import Location
from slate_engine.state.checkpoints import check_usable
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.protocol import NotFound

LEAP = 1 << 30
"""So many commits of others fit between the last one before a load and the load. The original's table of times by sequence
numbers has room for steps of twice that."""

SPREAD_MS = 3_600_000.0
"""The time in the names is drawn from so many: two loads that began together do not share it."""

QUIET_SECONDS = 30.0
"""A writer that has written nothing for so long is taken to be gone, or to bear being fenced."""

TIME_LETTERS = 10
"""So many letters of an SST's name are its time."""


class WriterAlive(InvalidError):
    """A writer that is not ours was at work a short while ago."""


@dataclass(frozen=True)
class Intent:
    """Goes to every task, and to the commit."""

    location: Location
    options: LoadOptions
    seq: int
    created_ms: int
    deadline_ms: int
    sst: SstOptions

    @property
    def name_prefix(self) -> str:
        """What the names of all SSTs of this load begin with, and of no other."""
        return str(Ulid.of(self.deadline_ms, 0))[:TIME_LETTERS]

    def check_time(self, now_ms: int) -> None:
        if now_ms >= self.deadline_ms - SPREAD_MS:
            raise InvalidError(
                f"the load has taken longer than {self.options.max_duration_ms / 3_600_000:g} h, and what it wrote may be "
                "collected soon; nothing was committed. Load again with a longer maxDuration"
            )


async def begin(files: DatabaseFiles, location: Location, options: LoadOptions) -> Intent:
    """Look at the database, if there is one yet, and settle what a load into it needs. Writes nothing."""
    found = await files.manifests.latest()
    last_seq = 0
    sst = SstOptions()
    if found is not None:
        await check_loadable(files, found.value, take_over=options.take_over)
        last_seq = (await files.latest()).max_seq
        sst = sst_options_of(found.value)
    if options.codec is not None:
        sst = SstOptions(codec=options.codec)
    now_ms = files.runtime.now_ms()
    deadline_ms = now_ms + options.max_duration_ms + int(files.runtime.uniform(SPREAD_MS, 2 * SPREAD_MS))
    return Intent(location, options, last_seq + LEAP, now_ms, deadline_ms, sst)


async def check_loadable(files: DatabaseFiles, manifest: Manifest, *, take_over: bool) -> None:
    """Raises unless rows may be added to this database now."""
    check_usable(manifest, files.path)
    if manifest.segment_extractor_name is not None:
        raise InvalidError(
            f"{files.path!r} divides its keys by the segment extractor {manifest.segment_extractor_name!r}, which a load "
            "does not know; write to it through a writer"
        )
    if take_over:
        return
    await _check_nobody_writes(files, manifest)
    await check_nobody_works(
        files, CompactionsStore.open(files.store, files.paths.root, files.runtime), quiet_seconds=QUIET_SECONDS
    )


async def _check_nobody_writes(files: DatabaseFiles, manifest: Manifest) -> None:
    """Our writers sign their WAL files, and are not taken for strangers: the commit of a load fences them off for a moment,
    and they open the database again. A stranger might not, and who runs it should know."""
    store = files.log_store
    last = max(await wal_frontier(store, files.paths, manifest.replay_after_wal_id), manifest.wal_id_last_seen)
    signs = [manifest.trees.newest_l0_ms or 0]
    if last and await Tenure(files, manifest.writer_epoch).author_of(last) is not None:
        return
    with contextlib.suppress(NotFound):  # there is no log, or it was collected
        signs.append((await store.head(files.paths.wal(last))).last_modified_ms)
    silent = (files.runtime.now_ms() - max(signs)) / 1000
    if silent < QUIET_SECONDS:
        raise WriterAlive(
            f"another writer (epoch {manifest.writer_epoch}) wrote to {files.path!r} {max(silent, 0):.0f} s ago, and does "
            f"not say that it is one of ours. Close it, and load after {QUIET_SECONDS:g} s of silence; or, because you know "
            "that it is closed or may be fenced off, load with takeOver=true"
        )
