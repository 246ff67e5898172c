"""How what tasks have written becomes a table: everything is copied to its place by the driver, then ``_SUCCESS`` says so.

Attempts of tasks write under ``_slatekeeper/<job>/``, where no reader looks, each under names of its own. Only those whose
answer Spark let through are copied. So an attempt that failed, or one that lives on after its twin was faster, adds no row;
what it leaves is deleted with the rest, or lies unseen.

A write that fails is undone, as long as that loses nothing: once it deletes the table that it replaces, its rows are the
only ones. A marker says so from then on, until another write replaces those, too: Spark gives up a write that is complete if
it does not hear of that, and a job may be tried again after it was done.
"""

from __future__ import annotations

import asyncio
import enum
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from slate_engine.errors import Error, InvalidError
from slate_engine.spark.parquet.folder import visible
from slate_engine.store.protocol import Buffer, NotFound, ObjectStore

log = logging.getLogger(__name__)

SUCCESS = "_SUCCESS"
COPIES_AT_ONCE = 16
_STAGING, _REPLACING = "_slatekeeper/", "replacing"


class Mode(enum.Enum):
    """What to do about a table that is there; the values are Spark's names."""

    APPEND = "append"
    OVERWRITE = "overwrite"
    NEW = "errorifexists"


@dataclass(frozen=True)
class Staged:
    """A file that an attempt of a task has written."""

    key: str
    size: int

    @staticmethod
    def folder(job: str) -> str:
        return f"{_STAGING}{job}/"


async def check_target(store: ObjectStore, mode: Mode, job: str) -> None:
    """Raises if the table may not be written there. What an earlier try of the same job left is not in its way."""
    if mode is Mode.APPEND:
        return
    async for meta in visible(store):
        if _is_final(meta.key, job):
            continue
        if mode is Mode.NEW:
            raise InvalidError(
                f"there is something at {store.url} already, such as {meta.key}: choose another folder, or add to the table "
                "(mode append) or replace it (mode overwrite)"
            )
        if not meta.key.endswith(".parquet"):
            raise InvalidError(
                f"{meta.key} in {store.url} is no part of a Parquet table, so this is not a table that can be replaced: "
                "choose a folder that has nothing else in it"
            )


async def commit(store: ObjectStore, mode: Mode, job: str, staged: Sequence[Staged], empty: Buffer) -> int:
    """Make a table of these files, in this order, or of ``empty`` if there are none; gives how many files were added."""
    await check_target(store, mode, job)
    added = len(staged)
    seen = [meta.key async for meta in visible(store)]
    old = [key for key in seen if not _is_final(key, job)] if mode is Mode.OVERWRITE else []
    if staged:
        names = {each.key: _final(number, job) for number, each in enumerate(staged)}
        await _copy(store, names)
        # Of a driver that died while it copied: the same rows, perhaps cut into more files.
        await store.delete([key for key in seen if _is_final(key, job) and key not in names.values()])
    elif mode is not Mode.APPEND:
        await store.put(_final(0, job), empty)
        added = 1
    if old:
        # From here on there is no way back: the new rows are the ones that stay.
        await store.put(_no_return(job), b"")
        await store.delete([SUCCESS, *old])
    await store.put(SUCCESS, b"")
    try:
        await _delete_staged(store, job)
        if old:
            await store.delete(await _markers(store, old))
    except Error as trouble:
        log.warning("the table is complete, but %s could not be deleted: %s", Staged.folder(job), trouble)
    return added


async def abandon(store: ObjectStore, job: str) -> None:
    """Delete what a write has left that failed, unless it has begun to delete the old table."""
    try:
        await store.head(_no_return(job))
        log.warning("%s: the old table was being replaced, or has been; what is there stays: write it again", store.url)
    except NotFound:
        seen = [meta.key async for meta in visible(store)]
        ours = [key for key in seen if _is_final(key, job)]
        # The last request of a commit may have been carried out, although it seemed to fail.
        await store.delete(ours if len(ours) < len(seen) else [*ours, SUCCESS])
    await _delete_staged(store, job)


def _final(number: int, job: str) -> str:
    return f"part-{number:05d}-{job}.parquet"


def _is_final(key: str, job: str) -> bool:
    return key.startswith("part-") and key.endswith(f"-{job}.parquet")


def _no_return(job: str) -> str:
    return f"{Staged.folder(job)}{_REPLACING}"


async def _copy(store: ObjectStore, names: dict[str, str]) -> None:
    slots = asyncio.Semaphore(COPIES_AT_ONCE)

    async def copy(source: str, destination: str) -> None:
        async with slots:
            await store.copy(source, destination)

    async with asyncio.TaskGroup() as tasks:
        for source, destination in names.items():
            tasks.create_task(copy(source, destination))


async def _delete_staged(store: ObjectStore, job: str) -> None:
    keys = [meta.key async for page in store.list(Staged.folder(job)) for meta in page]
    await store.delete([key for key in keys if key != _no_return(job)])


async def _markers(store: ObjectStore, parts: Sequence[str]) -> list[str]:
    """Those of the writes that these parts are of."""
    keys = [meta.key async for page in store.list(_STAGING) for meta in page]
    jobs = [key.split("/")[1] for key in keys if key.endswith(f"/{_REPLACING}")]
    return [_no_return(job) for job in jobs if any(_is_final(key, job) for key in parts)]
