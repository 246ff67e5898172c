"""Whose a database is: a mark beside its bytes, so that two operators, of one cluster or of two, do not both care for it.

The mark is a note, not a lock: who writes is decided by epochs, as ever. It keeps a second owner from starting at all, where
epochs would let the two fence each other off for ever. Who gives a database back leaves his name, so that he may have it
again without being asked what he wants with a path that is not empty.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Literal

from slate_engine.admin.parents import newest_or_none
from slate_engine.errors import CorruptData, InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.state.commit import NothingStored
from slate_engine.state.destroy import NotDestroyed
from slate_engine.state.tombstone import check_alive, life_of
from slate_engine.store.protocol import CREATE, Conflict, NotFound, Update

Expected = Literal["empty", "database", "destroyed"]


@dataclass(frozen=True, slots=True)
class Owner:
    """``released``: he gave it back, and anybody may have it."""

    uid: str
    namespace: str
    name: str
    released: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name} ({self.uid})"

    def is_called_like(self, other: Owner) -> bool:
        return (self.namespace, self.name) == (other.namespace, other.name)


class OwnedByAnother(InvalidError):
    """Somebody else cares for this database."""

    def __init__(self, path: str, owner: Owner) -> None:
        super().__init__(
            f"database {path!r} belongs to {owner}; delete that one first, or, if its cluster is gone for good, claim the "
            f"database instead of {owner.uid}"
        )
        self.owner = owner


class DatabaseExists(InvalidError):
    """A new database was wanted where one is."""


async def claim(files: DatabaseFiles, claimant: Owner, expected: Expected, instead_of: str | None = None) -> Owner:
    """Mark the database as the claimant's. What is expected there matters at the first claim only: later it is his own.
    ``instead_of`` is the uid of an owner who cannot give it back any more."""
    while True:
        found, etag = await _read(files)
        if found == claimant:
            return claimant
        if found is not None and not found.released and found.uid not in (claimant.uid, instead_of):
            raise OwnedByAnother(files.path, found)
        if found is None or found.uid != claimant.uid:
            returning = found is not None and found.released and found.is_called_like(claimant)
            await _check(files, expected, returning)
        try:
            await files.store.put(owner_key(files), _encoded(claimant), CREATE if etag is None else Update(etag))
            return claimant
        except Conflict:
            continue


async def release(files: DatabaseFiles, uid: str) -> None:
    """Give the database back, if it is his."""
    while True:
        found, etag = await _read(files)
        if found is None or etag is None or found.released or found.uid != uid:
            return
        try:
            await files.store.put(owner_key(files), _encoded(replace(found, released=True)), Update(etag))
            return
        except Conflict:
            continue


async def owner_of(files: DatabaseFiles) -> Owner | None:
    return (await _read(files))[0]


async def _check(files: DatabaseFiles, expected: Expected, returning: bool) -> None:
    """``returning``: he had it before, so that finding his database where he says that there is none is no surprise."""
    newest = await newest_or_none(files.manifests)
    if newest is None:
        if expected == "empty":
            return
        raise NothingStored(f"there is no database at {files.path!r} in {files.store.url}: is the path right?")
    life = life_of(newest.value)
    if expected == "destroyed":
        if life != "destroyed":
            raise NotDestroyed
        return
    check_alive(newest.value, files.path)
    if expected == "empty" and not returning:
        raise DatabaseExists(
            f"there is a database at {files.path!r} already; adopt it if it is meant, or choose another path"
        )
    if newest.value.initialized:
        # Services that cannot read the whole log would show old rows, or refuse to start.
        await files.check_log(newest.value)


def owner_key(files: DatabaseFiles) -> str:
    return files.paths.under("gc/owner.json")


def _encoded(owner: Owner) -> bytes:
    return json.dumps(asdict(owner)).encode()


async def _read(files: DatabaseFiles) -> tuple[Owner | None, str | None]:
    try:
        found = await files.store.get(owner_key(files))
    except NotFound:
        return None, None
    try:
        said = json.loads(bytes(found.data))
        owner = Owner(str(said["uid"]), str(said["namespace"]), str(said["name"]), bool(said["released"]))
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptData(f"not the mark of an owner: {error}", object=owner_key(files)) from None
    return owner, found.meta.etag
