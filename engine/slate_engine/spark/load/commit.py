"""How a load becomes part of the database: all of it, by one manifest, or nothing.

The load takes the writer's epoch for this. Whoever wrote before is fenced, so nothing can come between what the log holds
and the rows of the load; the log's rows become an SST, and then one manifest shows everything. A crash before it leaves the
database as it was, but for the fence. Nobody can tell a crash after it from success, and the same commit made again does
nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace

import numpy as np

from slate_engine.errors import DataError, InvalidError
from slate_engine.format.columns import Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import build_sst
from slate_engine.lsm.compaction.commit import Claim
from slate_engine.lsm.compaction.guard import leave_name
from slate_engine.lsm.fencing import fence_log
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import replay
from slate_engine.lsm.tenure import Tenure
from slate_engine.spark.load.building import Part
from slate_engine.spark.load.intent import Intent, check_loadable
from slate_engine.spark.load.overlap import check_no_key_twice
from slate_engine.spark.load.result import Loaded, arranged, check_apart, shows, with_load
from slate_engine.state.commit import Versioned
from slate_engine.state.epochs import claim_writer
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle

log = logging.getLogger(__name__)


async def commit_load(files: DatabaseFiles, intent: Intent, parts: Sequence[Part]) -> Versioned[Manifest] | None:
    """Make the rows of these parts visible; gives the manifest that shows them, None if there are none."""
    intent.check_time(files.runtime.now_ms())
    if intent.options.range_partitioned:
        check_apart(parts)
    await _check_stored(files, intent, parts)
    runs = arranged(parts)
    if not runs:
        return None
    await check_no_key_twice(files, runs, intent.options.memory_bytes)
    loaded = Loaded(runs, intent.seq, intent.created_ms, None, 0)
    newest = await files.manifests.create_first(Manifest())
    if shows(newest.value, loaded):
        return newest
    await check_loadable(files, newest.value, take_over=intent.options.take_over)
    # Before anybody is fenced: a load that cannot read the log changes nothing.
    await files.check_log(newest.value)
    tenure = Tenure(files, (await files.manifests.update(claim_writer)).value.writer_epoch)
    loaded = await _with_log(tenure, intent, loaded)

    def change(old: Manifest) -> Manifest:
        if shows(old, loaded):
            return old  # an earlier attempt was carried out, although its answer was lost
        tenure.check(old)
        intent.check_time(files.runtime.now_ms())
        return with_load(old, loaded)

    committed = await files.manifests.update(change)
    try:
        await _tidy(files, intent, committed.value)
    except Exception as trouble:
        # The load is done. Without a name a compactor waits a little longer, and what is left expires.
        log.warning("the load was committed as manifest %d, but not tidied up after: %s", committed.id, trouble)
    return committed


async def _tidy(files: DatabaseFiles, intent: Intent, shown: Manifest) -> None:
    await leave_name(files, Claim(shown.compactor_epoch))
    await _delete(files, await _stored(files, intent), kept={str(id) for id in shown.ssts.id})


async def abandon_load(files: DatabaseFiles, intent: Intent) -> None:
    """Delete what the tasks of a load have stored, unless it was committed after all.

    The commit may have failed with its last request still on the way. A manifest that changes nothing takes the number that
    this request wants; after that it cannot succeed any more."""
    stored = await _stored(files, intent)
    if not stored:
        return
    if await files.manifests.latest() is not None:
        ids = [Ulid.parse(name) for name in stored]

        def settle(old: Manifest) -> Manifest:
            return old if any(old.ssts.find(id) is not None for id in ids) else replace(old)

        settled = await files.manifests.update(settle)
        if any(settled.value.ssts.find(id) is not None for id in ids):
            log.warning("the load was committed, although its commit was taken to have failed")
            return
    await _delete(files, stored)


async def _with_log(tenure: Tenure, intent: Intent, loaded: Loaded) -> Loaded:
    """The same, and what others have written that no SST holds."""
    files = tenure.files
    end = await fence_log(tenure)
    manifest = (await files.manifests.read_latest()).value
    tenure.check(manifest)
    ids = range(manifest.replay_after_wal_id + 1, end + 1)
    rows = (await replay(files.log_store, files.paths, ids, manifest.last_l0_seq, files.runtime)).rows()
    if max(manifest.last_l0_seq, int(rows.seq.max()) if len(rows) else 0) >= intent.seq:
        raise InvalidError(
            "more than a billion commits were made beside the load, or another load; its rows would not be the newest any "
            "more. Nothing was loaded: load again"
        )
    if not len(rows):
        return replace(loaded, log_end=end)
    handle = await _store_log(files, intent, rows)
    youngest = max(loaded.created_ms, int(np.max(rows.create_ts)))
    return replace(loaded, log=handle, log_end=end, created_ms=youngest)


async def _store_log(files: DatabaseFiles, intent: Intent, rows: Rows) -> SstHandle:
    built = await files.runtime.run(build_sst, rows, intent.sst)
    handle = SstHandle(Ulid.new(files.runtime, intent.deadline_ms), built.info, built.version)
    await files.store.put(files.paths.compacted(handle.id), built.tobytes())
    return handle


async def _stored(files: DatabaseFiles, intent: Intent) -> dict[str, int]:
    """The SSTs of this load that are in the store, by the text of their ids, and their sizes."""
    directory = files.paths.compacted_directory + "/"
    prefix = directory + intent.name_prefix
    found = {meta.key: meta.size async for page in files.store.list(prefix) for meta in page}
    return {key.removeprefix(directory).removesuffix(".sst"): size for key, size in found.items()}


async def _check_stored(files: DatabaseFiles, intent: Intent, parts: Sequence[Part]) -> None:
    """What is not there must not be shown."""
    stored = await _stored(files, intent)
    for part in parts:
        for handle in part.ssts:
            if stored.get(str(handle.id), 0) < handle.estimated_size:
                raise DataError(
                    f"{files.paths.compacted(handle.id)}, which the load wrote, is gone or cut short; nothing was "
                    "committed. Load again"
                )


async def _delete(files: DatabaseFiles, stored: Iterable[str], kept: Container[str] = ()) -> None:
    """What attempts have left that do not count. One that is still under way leaves something for garbage collection."""
    await files.store.delete([files.paths.under(f"compacted/{name}.sst") for name in stored if name not in kept])
