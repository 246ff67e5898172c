"""Safety mechanisms of clones and of destroying that can be switched off, so that a test can show that it notices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from unittest import mock

from slate_engine.admin import checkpoints, cloning, destroying
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import wal_frontier
from slate_engine.lsm.tenure import Tenure
from slate_engine.state import destroy
from slate_engine.state.clones import finished
from slate_engine.state.destroy import claimed_for_deletion
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.tombstone import Tombstone


def parents_do_not_keep() -> AbstractContextManager[object]:
    async def nothing(files: DatabaseFiles, external: ExternalDb) -> None:
        """The parent is not told."""

    return mock.patch.object(cloning, "_keep", nothing)


def clones_forget_what_is_only_in_the_log() -> AbstractContextManager[object]:
    async def none_known(files: DatabaseFiles) -> int:
        return 0

    return mock.patch.object(checkpoints, "_log_end", none_known)


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


def destroying_leaves_the_log_open() -> AbstractContextManager[object]:
    async def seen_only(tenure: Tenure) -> int:
        newest = (await tenure.files.manifests.read_latest()).value
        return await wal_frontier(tenure.files.store, tenure.files.paths, newest.replay_after_wal_id)

    return mock.patch.object(destroying, "fence_log", seen_only)


@contextmanager
def destroying_fences_nobody() -> Iterator[None]:
    with (
        destroying_leaves_the_log_open(),
        mock.patch.object(destroy, "claim_writer", lambda manifest: manifest),
    ):
        yield


def deleting_can_be_taken_back() -> AbstractContextManager[object]:
    def claimed(manifest: Manifest, *, now_ms: int) -> Manifest:
        marked = claimed_for_deletion(manifest, now_ms=now_ms)
        tombstone = Tombstone.of(marked)
        assert tombstone is not None
        return replace(marked, segment_extractor_name=replace(tombstone, deleting=False).text)

    return mock.patch.object(destroying, "claimed_for_deletion", claimed)
