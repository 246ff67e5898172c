"""Finishing writes that somebody left half done, and clearing away what nobody needs any more.

Both may be run by anybody, at any time, any number of them at once, beside writers and readers. Finishing is the tail of
every write as well, so recovery has no steps of its own: copy, look, commit, delete the temporary.

**What may be collected, and why it is safe.** A record keeps every other writer out of a name, so it has to outlive
everybody who could still try to write that name. It is deleted only together with its object, or after it: never while the
object stands. Whoever deletes an object has already made sure that its name is dead: for manifests and compactions the
boundary is advanced first, and a write at or below it counts as lost even if it finds the name free
(:mod:`slate_engine.store.numbered`); WAL files go when they are below the replay point of every live manifest, where no
reader looks and no writer of the current epoch writes. These are RFC-0001's rules for records of inactive objects, bound to
the deletion itself. Age alone never makes a record deletable; it only keeps the collector from looking at a write that is
still in progress.

A temporary without a record is deleted when it is older than any write should take. Should its writer wake up after all
and claim the name, it finds its temporary gone, puts another, and changes its record to that: the name is its own from the
record on. If it dies in just that gap, neither temporary nor object exist: the write is absent, and the collector withdraws
its record, unless the writer has changed it first. What this takes for granted is that no request to copy is under way in
the object store itself for longer than the collector's age.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from slate_engine.errors import CorruptData, InvalidError, UnavailableError
from slate_engine.store.protocol import Buffer, NotFound, ObjectMeta
from slate_engine.store.two_phase.record import Record, State, destination_of, intent
from slate_engine.store.two_phase.site import Site

log = logging.getLogger(__name__)

YOUNGEST_GARBAGE = 3600.0
"""Seconds for which every temporary is left alone. A writer that claims its name well before that knows that its temporary
is still there; the rest of the hour is for clocks that do not agree."""
_DELETE_BATCH = 500


class TemporaryLost(UnavailableError):
    """A write is recorded, but its temporary object is gone before it was copied. Only its writer could put it back."""


@dataclass(frozen=True, slots=True)
class Collected:
    """What one collection did, or what it would do: then writes that it could finish or withdraw are not counted."""

    finished: int
    withdrawn: int
    temporaries: int
    temporary_bytes: int
    records: int


async def finish(site: Site, record: Record, data: Buffer | None = None) -> str | None:
    """Bring the bytes of a recorded write under their name, commit it, and delete its temporary. Returns the etag, or None
    if the record is not there any more: the write was finished and deleted, or withdrawn.

    Idempotent: all copies of one write carry the same bytes, so it does not matter how many finish it, nor how late.
    ``data`` are these bytes when the caller is the writer itself.
    """
    while True:
        try:
            await site.objects.copy(site.key(record.source), site.key(record.destination))
            break
        except NotFound:
            standing = await site.transactions.get(record.destination)
            if standing is None or standing.version != record.version:
                return None
            if standing.state is State.COMMITTED:
                break  # somebody else was faster
            if data is None:
                raise TemporaryLost(
                    f"the write of {record.destination} is recorded but its temporary object is missing; if its writer is "
                    "dead, collect() will withdraw it"
                ) from None
            renewed = intent(record.destination, data, site.runtime)
            await site.objects.put(site.key(renewed.source), data)
            if not await site.transactions.compare_and_set(renewed, expected=record.version):
                return None
            record = renewed
    etag = await _landed(site, record)
    if not await site.transactions.compare_and_set(record.committed(), expected=record.version):
        return None
    await site.objects.delete([site.key(record.source)])
    return etag


async def _landed(site: Site, record: Record) -> str:
    """The etag of the copy, after a look at it: its temporary is deleted next, and must not be if the copy is not whole."""
    key = site.key(record.destination)
    try:
        copy = await site.objects.head(key)
    except NotFound:
        return ""  # deleted since
    if copy.size != record.size:
        reason = f"the copy has {copy.size} bytes instead of {record.size}; its temporary {record.source} is kept"
        raise CorruptData(reason, object=key)
    return copy.etag


async def recover(site: Site, prefix: str, repair: Callable[[Record], Awaitable[None]]) -> int:
    """Finish every write under ``prefix`` that is not committed, and return how many there were; ``repair`` looks after the
    mirrors of mutable objects."""
    finished = 0
    async for record in _records(site, prefix, committed=False):
        if record.state is not State.PENDING:
            await repair(record)
            continue
        try:
            finished += await finish(site, record) is not None
        except TemporaryLost as lost:
            log.warning("%s", lost)
    return finished


async def collect(site: Site, prefix: str, older_than: float, *, dry_run: bool = False) -> Collected:
    """Delete what writers left behind more than ``older_than`` seconds ago. The module says what, and why that is safe. A
    dry run only counts."""
    if older_than < YOUNGEST_GARBAGE:
        raise InvalidError(
            f"only what is older than {YOUNGEST_GARBAGE:g} seconds is garbage for sure, not {older_than:g}"
        )
    cutoff = site.runtime.now_ms() - int(older_than * 1000)
    finished, withdrawn = (0, 0) if dry_run else await _settle_old(site, prefix, cutoff)
    orphans = await _orphans(site, prefix, cutoff)
    records = await _deleted(site, prefix, cutoff)
    forgotten = len(records)
    if not dry_run:
        for start in range(0, len(orphans), _DELETE_BATCH):
            await site.objects.delete([meta.key for meta in orphans[start : start + _DELETE_BATCH]])
        forgotten = sum([await site.transactions.delete_version(record) for record in records])
    return Collected(finished, withdrawn, len(orphans), sum(meta.size for meta in orphans), forgotten)


async def _settle_old(site: Site, prefix: str, cutoff: int) -> tuple[int, int]:
    finished = withdrawn = 0
    async for record in _records(site, prefix, committed=False):
        if record.state is not State.PENDING or record.created_ms > cutoff:
            continue
        try:
            finished += await finish(site, record) is not None
        except TemporaryLost:
            log.warning("withdrawing the write of %s: its writer died and its temporary is gone", record.destination)
            withdrawn += await site.transactions.delete_version(record)
    return finished, withdrawn


async def _orphans(site: Site, prefix: str, cutoff: int) -> list[ObjectMeta]:
    """Temporaries that no record stands for."""
    orphans: list[ObjectMeta] = []
    async for page in site.objects.list(prefix):
        for meta in page:
            destination = destination_of(meta.key)
            if destination is None or meta.last_modified_ms > cutoff:
                continue
            record = await site.transactions.get(site.name(destination))
            if record is None or record.state is not State.PENDING or record.source != site.name(meta.key):
                orphans.append(meta)
    return orphans


async def _deleted(site: Site, prefix: str, cutoff: int) -> list[Record]:
    """Records of objects that are deleted."""
    # Records first, objects second: what is committed has its object, unless that was deleted, so an object that the later
    # listing does not show is gone for good.
    old = [record async for record in _records(site, prefix, committed=True) if record.created_ms <= cutoff]
    standing: set[str] = set()
    for folder in {site.key(record.destination).rpartition("/")[0] for record in old}:
        async for page in site.objects.list(f"{folder}/" if folder else ""):
            standing.update(meta.key for meta in page)
    return [record for record in old if site.key(record.destination) not in standing]


async def _records(site: Site, prefix: str, *, committed: bool) -> AsyncIterator[Record]:
    async for page in site.transactions.list(site.name(prefix), committed=committed):
        for record in page:
            yield record
