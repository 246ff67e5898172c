"""How a writer takes a database over, so that no older writer can add to it any more (RFC-0001).

First the epoch: the manifest is committed with the next writer epoch. Then the log: an empty file at the next WAL id, so
that whoever wrote before finds that id taken and stops. Trying to create that file has four outcomes. It succeeds, and all
older writers are fenced. An older writer was faster: its file is part of the log, and the next id is tried. A newer writer
was faster: its epoch stands in the manifest, and *we* are fenced. Somebody with our own epoch was faster: that cannot
happen, as epochs are given out by compare-and-swap; it is reported as being fenced.

A predecessor that wrote several files at once (``max_parallel_writes``) may still have some of them on their way, behind
the one that we see. So its window of ids is fenced whole: only as many empty files in a row prove that nothing of it can
appear after them. Holes that it left are filled with empty files, so the log is contiguous again for every reader.
"""

from __future__ import annotations

from dataclasses import dataclass

from slate_engine.errors import Fenced, InvalidError
from slate_engine.format.wal import FENCE
from slate_engine.lsm.parallelism import read_window, widen_window
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import truncated, wal_ids
from slate_engine.lsm.segments import check_extractor
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import Moment
from slate_engine.state.checkpoints import check_usable
from slate_engine.state.epochs import claim_writer
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import Conflict


@dataclass(frozen=True)
class Claim:
    """A database that is ours: the manifest with our epoch, the WAL files to be replayed, and where the log goes on."""

    tenure: Tenure
    manifest_id: int
    manifest: Manifest
    wal_ids: range
    looked: Moment
    """When the look at the manifest began that found it to be ours."""

    @property
    def next_wal_id(self) -> int:
        return self.wal_ids.stop


async def claim_database(files: DatabaseFiles, options: WriterOptions) -> Claim:
    """Fence all older writers off."""
    name = options.extractor.name() if options.extractor else None
    standing = await files.manifests.create_first(Manifest(segment_extractor_name=name))
    # Before anybody is fenced: a process that cannot replay the log must not stop a writer that can.
    check_usable(standing.value)
    await files.check_log(standing.value)
    tenure = Tenure(files, await _claim_epoch(files, options))
    fence = await fence_log(tenure)
    if options.max_parallel_writes > 1:
        await widen_window(files, options.max_parallel_writes)
    # Looked at last: a successor that is not there yet will find the window as wide as we may use it.
    looked = Moment(files.runtime)
    found = await files.manifests.read_latest()
    _check_epoch(found.value, tenure.epoch)
    return Claim(tenure, found.id, found.value, range(found.value.replay_after_wal_id + 1, fence + 1), looked)


async def _claim_epoch(files: DatabaseFiles, options: WriterOptions) -> int:
    def claim(old: Manifest) -> Manifest:
        check_usable(old)
        check_extractor(old, options.extractor)
        return claim_writer(old)

    return (await files.manifests.update(claim)).value.writer_epoch


async def fence_log(tenure: Tenure) -> int:
    """Put as many empty files in a row behind the log as a predecessor could have under way; the last one's id."""
    files, epoch = tenure.files, tenure.epoch
    store = files.log_store
    window = await read_window(files)
    manifest = (await files.manifests.read_latest()).value
    replay_after, needed = manifest.replay_after_wal_id, manifest.needed_wal_ids
    present = set(await wal_ids(store, files.paths, replay_after))
    # Only now: what we have seen of the log is not that of a newer writer, whose next file we would take for a free place.
    _check_epoch((await files.manifests.read_latest()).value, epoch)
    next_id = replay_after + 1
    in_a_row = 0
    while in_a_row < window:
        if next_id in present:
            in_a_row = 0
        elif next_id in needed:
            # An empty file here would turn a gap into a log without the rows that are missing.
            raise await truncated(store, files.paths, next_id, needed)
        else:
            if any(id > next_id + window for id in present):
                raise InvalidError(
                    f"wal truncated at wal file {next_id}: later files exist, so this one was lost or deleted; restore it, "
                    "or clone or copy a checkpoint that does not need it"
                )
            try:
                await store.put(files.paths.wal(next_id), FENCE, tenure.create)
                in_a_row += 1
            except Conflict:
                in_a_row = 0
                _check_epoch((await files.manifests.read_latest()).value, epoch)
                _check_author(await tenure.author_of(next_id), next_id, epoch)
        next_id += 1
    return next_id - 1


async def close_log(tenure: Tenure, after: int = 0) -> list[int]:
    """Put empty files behind the last file of the log and the id ``after``, as many in a row as a writer could have under
    way, even if files are missing before them. Gives their ids, also if this epoch has closed the log before."""
    files = tenure.files
    store = files.log_store
    window = await read_window(files)
    present = await wal_ids(store, files.paths, 0)
    last = max(present, default=0)
    if last > after and await tenure.author_of(last) == tenure.epoch:
        return [id for id in present if id > last - window]
    last = max(last, after)
    closed: list[int] = []
    while len(closed) < window:
        last += 1
        try:
            await store.put(files.paths.wal(last), FENCE, tenure.create)
            closed.append(last)
        except Conflict:
            closed = []
    return closed


def _check_author(author: int | None, wal_id: int, epoch: int) -> None:
    """The manifest says that nobody is newer than we are. A file that says otherwise means that epochs were given out
    twice, as when an old manifest was brought back under a writer that lives: then nobody can tell whose rows count."""
    if author is not None and author >= epoch:
        raise Fenced(
            f"WAL file {wal_id} was written by writer epoch {author}, while the manifest has just given out epoch {epoch}; "
            "stop every process that writes this database, and open it again"
        )


def _check_epoch(manifest: Manifest, epoch: int) -> None:
    if manifest.writer_epoch != epoch:
        raise Fenced(
            f"writer epoch {manifest.writer_epoch} took the database over while epoch {epoch} was opening it; let one "
            "process only write it"
        )
