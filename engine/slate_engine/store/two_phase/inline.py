"""Mutable objects: their bytes live in the transactional store.

RFC-0001 leaves compare-and-set of mutable objects open, and for a reason: with two-phase writes each version is copied to
the same name, and nothing stops a copy of version *n* that was stuck somewhere from landing on top of version *n+1*. (For
immutable objects all copies carry the same bytes.) So a mutable object is not copied at all: its record holds its bytes,
and a change is one compare-and-set of that record. This is the RFC's pattern 2; it asks for small objects, and the only
mutable ones that SlateDB has are boundaries, a number in text.

The record is the truth for ever: reads look at nothing else once it exists, and a deleted object keeps a record that says
so. The object in the bucket is a mirror, written afterwards, for SlateDB's own readers. It may be behind, and a stuck
write may even set it back until the next ``recover``; such a reader merely learns later what was collected. An
object that stood in the bucket before any record did (a database that another tool made) is read from there, and its
first update makes the record.

Names that are deleted and created again belong here as well, for the same reason: a copy of the former object, stuck until
after the deletion, must not come back as the new one.
"""

from __future__ import annotations

import logging

from slate_engine.errors import InvalidError, UnavailableError
from slate_engine.store.backend import check_key
from slate_engine.store.protocol import (
    Buffer,
    Conflict,
    Create,
    Denied,
    NotFound,
    NotModified,
    Object,
    ObjectMeta,
    Overwrite,
    PutMode,
    Update,
)
from slate_engine.store.two_phase.record import Record, State, checksum, inlined, tombstone
from slate_engine.store.two_phase.site import Site

log = logging.getLogger(__name__)

LIMIT = 32 * 1024
"""Bytes that a record may hold: far more than a boundary needs, and less than every transactional store allows."""

_BEFORE_RECORDS = "before-records-"


class InlineObjects:
    """The mutable objects of one bucket. An etag is the version of the record, or the checksum of one without a record."""

    def __init__(self, site: Site) -> None:
        self._site = site

    async def get(self, key: str, if_none_match: str | None = None) -> Object:
        record = await self._site.transactions.get(self._site.name(check_key(key)))
        found = await self._unrecorded(key) if record is None else self.object(record)
        if found.meta.etag == if_none_match:
            raise NotModified
        return found

    async def put(self, key: str, data: Buffer, mode: PutMode) -> str:
        if len(data) > LIMIT:
            raise InvalidError(
                f"{key} is a mutable object of {len(data)} bytes; on this store they may have {LIMIT} at most"
            )
        transactions = self._site.transactions
        record = inlined(self._site.name(check_key(key)), data, self._site.runtime)
        while True:
            # A lost race is judged by what the winner left, so each turn of this loop is somebody's progress.
            standing = await transactions.get(record.destination)
            await self._check(key, mode, standing)
            if standing is None:
                won = await transactions.put_if_absent(record) is None
            else:
                won = await transactions.compare_and_set(record, expected=standing.version)
            if won:
                await self.mirror(record)
                return record.version

    async def delete(self, key: str) -> None:
        transactions = self._site.transactions
        gone = tombstone(self._site.name(check_key(key)), self._site.runtime)
        while True:
            standing = await transactions.get(gone.destination)
            if standing is None:
                if not await self._stands_unrecorded(key):
                    return
                won = await transactions.put_if_absent(gone) is None
            elif standing.state is State.DELETED:
                return
            else:
                won = await transactions.compare_and_set(gone, expected=standing.version)
            if won:
                await self.mirror(gone)
                return

    async def mirror(self, record: Record) -> None:
        """Make the bucket show what the record says. The write is durable without it, so a failure is only logged."""
        key = self._site.key(record.destination)
        try:
            while True:
                if record.content is None:
                    await self._site.objects.delete([key])
                else:
                    await self._site.objects.put(key, record.content)
                # Whoever changed the record meanwhile mirrors too, perhaps before us: then ours must not be the last word.
                latest = await self._site.transactions.get(record.destination)
                if latest is None or latest.version == record.version:
                    return
                record = latest
        except (UnavailableError, Denied) as failure:
            log.warning("%s is written, but its mirror in the bucket is behind: %s", record.destination, failure)

    async def repair(self, record: Record) -> None:
        """Mirror the object anew if the bucket shows something else."""
        try:
            shown = bytes((await self._site.objects.get(self._site.key(record.destination))).data)
        except NotFound:
            shown = None
        if shown != record.content:
            await self.mirror(record)

    def object(self, record: Record) -> Object:
        key = self._site.key(record.destination)
        if record.content is None:
            raise NotFound(key)
        return Object(ObjectMeta(key, record.size, record.created_ms, record.version), record.content)

    async def _check(self, key: str, mode: PutMode, standing: Record | None) -> None:
        match mode:
            case Overwrite():
                return
            case Create():
                taken = standing.content is not None if standing else await self._stands_unrecorded(key)
                if taken:
                    raise Conflict(key, mode)
            case Update(etag):
                try:
                    current = (self.object(standing) if standing else await self._unrecorded(key)).meta.etag
                except NotFound:
                    raise Conflict(key, mode) from None
                if current != etag:
                    raise Conflict(key, mode)

    async def _unrecorded(self, key: str) -> Object:
        found = await self._site.objects.get(key)
        etag = _BEFORE_RECORDS + checksum(found.data)
        return Object(ObjectMeta(key, found.meta.size, found.meta.last_modified_ms, etag), found.data)

    async def _stands_unrecorded(self, key: str) -> bool:
        try:
            await self._site.objects.head(key)
        except NotFound:
            return False
        return True
