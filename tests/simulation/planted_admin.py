"""Safety mechanisms of clones and of destroying that can be switched off, so that a test can show that it notices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from unittest import mock

from slate_engine.admin import checkpoints, cloning, destroying, restoring
from slate_engine.admin.clone_request import CloneRequest
from slate_engine.admin.deletion import Deletion
from slate_engine.gc import destroyed
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_frontier
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.wal_writer import WalWriter
from slate_engine.state import destroy, restore
from slate_engine.state.clones import finished
from slate_engine.state.commit import Versioned
from slate_engine.state.destroy import claimed_for_deletion
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.tombstone import Tombstone
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import CREATE, Conflict
from tests.simulation.mutation import edited
from tests.simulation.planted import acknowledged_without_a_look


def parents_do_not_keep() -> AbstractContextManager[object]:
    async def nothing(files: DatabaseFiles, external: ExternalDb) -> None:
        """The parent is not told."""

    return mock.patch.object(cloning, "_keep", nothing)


def clones_forget_what_is_only_in_the_log() -> AbstractContextManager[object]:
    listed = "await wal_frontier(files.log_store, files.paths, known.replay_after_wal_id)"
    return edited(checkpoints, "_commit_with_log", listed, "known.wal_id_last_seen")


def clones_open_before_their_log_is_there() -> AbstractContextManager[object]:
    copy_log = cloning._copy_log

    async def late(files: DatabaseFiles, source: str, manifest: Manifest) -> None:
        await files.manifests.update(finished)
        await copy_log(files, source, manifest)

    return mock.patch.object(cloning, "_copy_log", late)


def every_attempt_names_its_own_checkpoints() -> AbstractContextManager[object]:
    first_manifest = cloning._first_manifest

    async def hasty(files: DatabaseFiles, *arguments: object) -> Manifest:
        manifest = await first_manifest(files, *arguments)  # type: ignore[arg-type]
        for external in manifest.external_dbs:
            await cloning._keep(files, external)
        return manifest

    return mock.patch.object(cloning, "_first_manifest", hasty)


def finished_clones_count_for_every_request() -> AbstractContextManager[object]:
    """A client that asks for a clone of the same database gets the finished one, however old its state is."""
    return edited(cloning, "_check_made", "if not request.made(manifest):", "if False:")


def a_clone_that_is_begun_counts_for_every_request() -> AbstractContextManager[object]:
    return mock.patch.object(cloning, "_check_begun", cloning._check_sources)


def the_clone_of_a_faster_client_counts() -> AbstractContextManager[object]:
    """A client that finds a clone which was begun since it looked goes on with it."""
    return edited(
        cloning, "_check_own", "if _finals(standing) == _finals(first) or request.made(standing):", "if True:"
    )


def clones_do_not_tell_their_request() -> AbstractContextManager[object]:
    """Their checkpoints have ids that say nothing, so a client that repeats its request is refused."""
    return edited(CloneRequest, "final_checkpoint_id", "if self.id is None", "if True")


def destroying_leaves_the_log_open() -> AbstractContextManager[object]:
    async def seen_only(tenure: Tenure) -> int:
        newest = (await tenure.files.manifests.read_latest()).value
        return await wal_frontier(tenure.files.store, tenure.files.paths, newest.replay_after_wal_id)

    return mock.patch.object(destroying, "fence_log", seen_only)


@contextmanager
def destroying_fences_no_writer() -> Iterator[None]:
    with (
        destroying_leaves_the_log_open(),
        mock.patch.object(destroy, "claim_writer", lambda manifest: manifest),
    ):
        yield


def deleting_can_be_taken_back() -> AbstractContextManager[object]:
    def claimed(manifest: Manifest, *, now_ms: int, destroyed_at_s: int | None) -> Manifest:
        marked = claimed_for_deletion(manifest, now_ms=now_ms, destroyed_at_s=destroyed_at_s)
        tombstone = Tombstone.of(marked)
        assert tombstone is not None
        return replace(marked, segment_extractor_name=replace(tombstone, deleting=False).text)

    return mock.patch.object(destroying, "claimed_for_deletion", claimed)


def checkpoints_do_not_keep_from_deletion() -> AbstractContextManager[object]:
    return mock.patch.object(destroy, "active_checkpoints", return_value=[])


@contextmanager
def restoring_leaves_the_log_open() -> Iterator[None]:
    """A writer that looks before it acknowledges finds the restore all the same."""

    async def seen_only(tenure: Tenure) -> int:
        newest = (await tenure.files.manifests.read_latest()).value
        return await wal_frontier(tenure.files.store, tenure.files.paths, newest.replay_after_wal_id)

    with acknowledged_without_a_look(), mock.patch.object(restoring, "fence_log", seen_only):
        yield


def restoring_gives_numbers_out_again() -> AbstractContextManager[object]:
    async def of_level_0(files: DatabaseFiles, present: Manifest) -> int:
        return 0

    return mock.patch.object(restoring, "_last_seq", of_level_0)


def restoring_keeps_no_log() -> AbstractContextManager[object]:
    """Of the past only what was in SSTs comes back."""

    async def as_it_is(files: DatabaseFiles, past: Manifest, *rest: object) -> Manifest:
        return past

    return mock.patch.object(restoring, "_with_log_in_ssts", as_it_is)


def times_written_too_late_stay() -> AbstractContextManager[object]:
    """What a slow collector writes of a database that a faster one has deleted is left there."""

    async def without_a_look(files: DatabaseFiles, destroyed_at_s: int) -> None:
        with suppress(Conflict):
            await files.store.put(destroying.time_key(files), b"%d" % destroyed_at_s, CREATE)

    return mock.patch.object(destroyed, "write_time", without_a_look)


def deleting_expects_to_be_alone() -> AbstractContextManager[object]:
    """Whoever finds that somebody else has deleted the boundary takes it for a loss."""

    async def claim(files: DatabaseFiles, destroyed_at_s: int | None) -> Versioned[Manifest]:
        change = partial(claimed_for_deletion, now_ms=files.runtime.now_ms(), destroyed_at_s=destroyed_at_s)
        return await files.manifests.update(change)

    return mock.patch.object(destroying, "_claim", claim)


def deleting_leaves_the_log_open() -> AbstractContextManager[object]:
    line = "ends = await close_log(Tenure(self._files, destroyed.writer_epoch))"
    return edited(Deletion, "close", line, "ends: list[int] = []")


def deleting_does_not_linger() -> AbstractContextManager[object]:
    return edited(Deletion, "linger", "max(0.0, LINGER - self._closed.awake())", "0.0")


@contextmanager
def deleting_keeps_the_boundary() -> Iterator[None]:
    """Processes that have seen the boundary go on believing that nothing above it was deleted."""

    async def nothing(deletion: Deletion, mark: int) -> None:
        """The ids before the mark are not given up."""

    with mock.patch.object(Deletion, "give_up_before", nothing):
        yield


def restored_runs_keep_their_ids() -> AbstractContextManager[object]:
    """A job that has merged a run before the restore takes the restored one for it."""
    return mock.patch.object(restore, "_with_new_run_ids", lambda then, now: then)


def missing_counts_as_unchanged() -> AbstractContextManager[object]:
    """What a process remembers is the newest as long as nothing newer is there."""
    return edited(NumberedObjects, "_succeeds", "if known is None:", "if True:")


def commits_into_nothing_count() -> AbstractContextManager[object]:
    line = "boundary = max(boundary, await self._overtaken(created, known, confirmed))"
    return edited(NumberedObjects, "create_next", line, "pass")


def wal_files_in_nothing_stay() -> AbstractContextManager[object]:
    return edited(WalWriter, "_take_back", "if await self._holds(key, data):", "if False:")
