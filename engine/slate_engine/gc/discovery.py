"""Which databases a store holds, without listing all that they hold.

A listing is in the order of names, and may begin anywhere. As soon as a name tells that it lies in a folder of a database,
the search goes on behind that folder: so each database costs a few requests, however many objects it has.
"""

from __future__ import annotations

import re
from uuid import UUID

from slate_engine.runtime import Runtime
from slate_engine.state.stores import ManifestStore
from slate_engine.store.protocol import ObjectStore

_IN_A_FOLDER = re.compile(r"((?:.*/)?)(?:compactions|compacted|wal|gc|(manifest))/[^/]+")
_MANIFEST = re.compile(r".*[0-9]{20}\.manifest")


async def find_databases(store: ObjectStore, prefix: str = "") -> list[str]:
    """The paths of all databases under ``prefix``, which is a folder: those that have a manifest."""
    folder = prefix.strip("/")
    under = f"{folder}/" if folder else ""
    found: list[str] = []
    after: str | None = ""
    while after is not None:
        after = await _search(store, under, after, found)
    return sorted(found)


async def find_clones(store: ObjectStore, runtime: Runtime, prefix: str = "") -> dict[UUID, str]:
    """The clones under ``prefix``, by the checkpoints that keep their SSTs in their parents."""
    clones: dict[UUID, str] = {}
    for path in await find_databases(store, prefix):
        newest = await ManifestStore.open(store, path, runtime).latest()
        for external in newest.value.external_dbs if newest is not None else ():
            if external.final_checkpoint_id is not None:
                clones[external.final_checkpoint_id] = path
    return clones


async def _search(store: ObjectStore, under: str, after: str, found: list[str]) -> str | None:
    """Look on from ``after`` to the next folder of a database, and say where to go on; None if there is no more."""
    async for page in store.list(under, start_after=after):
        for meta in page:
            inside = _IN_A_FOLDER.fullmatch(meta.key)
            if inside is None or (inside[2] and not _MANIFEST.fullmatch(meta.key)):
                continue
            if inside[2]:
                found.append(inside[1].rstrip("/"))
            # "0" follows "/": every name in the folder is smaller than this.
            return meta.key.rpartition("/")[0] + "0"
    return None
