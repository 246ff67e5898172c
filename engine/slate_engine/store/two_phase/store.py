"""Create-if-absent and update-if-match on an object store that has neither (RFC-0001, "CAS on S3").

**A write** of an immutable object: look whether the name is taken; put the bytes under a temporary name; insert the record
of the write into the transactional store, which takes one record per name; copy the temporary to its name; set the
record to committed; delete the temporary. The insert decides. From then on the write is durable and has won: whoever
comes next to the record, a reader, a loser, a recovery, can finish it (:mod:`~slate_engine.store.two_phase.recovery`). So
a failure after the insert is no failure of the write, as long as its temporary is there: a writer that stalled before
the insert for so long that a collector may have taken the temporary for an orphan relies on nothing but the finished copy.

**Objects without a record.** A database may have been made by a tool that knows nothing of records. The look before the
insert keeps its objects from being overwritten. A look alone would be a race; it is right together with two rules.
First, everybody who creates objects under these names goes through the same transactional store from now on. Then an
object that appears after the look has a record, and the insert fails. Second, a record outlives its object, so
that it is still there however long the writer stalls between look and insert.

**Readers** must not miss a write that is durable but not copied yet: a writer that missed manifest 7 would go on from
6. A get that finds nothing asks for the record, and reads the temporary if the write is pending. A listing asks for the
pending records first and lists afterwards: what is not pending any more by then has been copied before. Reading never
writes, so read-only credentials are enough.

**Mutable objects** (those that ``mutable`` names: everything in a ``gc/`` folder) are kept in the transactional store:
:mod:`~slate_engine.store.two_phase.inline`. Every other object is immutable here, and update-if-match of one is refused.

Price of a create: PUT, 2 HEAD, COPY, DELETE and two writes to the transactional store. A get of what does not exist costs a
consistent read of the transactional store on top, a listing a query.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from slate_engine.errors import CorruptData, InvalidError, UnavailableError
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import (
    COPIED,
    CREATE,
    OVERWRITE,
    Buffer,
    Conflict,
    Create,
    Denied,
    NotFound,
    Object,
    ObjectMeta,
    ObjectStore,
    PutMode,
    StoreUnavailable,
    Update,
)
from slate_engine.store.ranges import check_ranges
from slate_engine.store.two_phase import recovery
from slate_engine.store.two_phase.inline import InlineObjects
from slate_engine.store.two_phase.record import Record, State, checksum, intent, is_staged
from slate_engine.store.two_phase.recovery import Collected
from slate_engine.store.two_phase.site import Site
from slate_engine.store.two_phase.transactions import TransactionStore

log = logging.getLogger(__name__)
T = TypeVar("T")

_PROMPT_SECONDS = recovery.YOUNGEST_GARBAGE / 6
"""A writer that needs longer than this from its first step to its record has to fear for its temporary."""


def in_gc_folder(key: str) -> bool:
    """Boundaries, and whatever else SlateDB or we keep beside them: small, and changed or deleted in place."""
    return key.split("/")[-2:-1] == ["gc"]


class Stopwatch:
    """Time by whichever clock ran more: the monotonic one stands still while a machine sleeps, the other may be set back."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._monotonic, self._wall_ms = runtime.monotonic(), runtime.now_ms()

    def seconds(self) -> float:
        wall = (self._runtime.now_ms() - self._wall_ms) / 1000
        return max(wall, self._runtime.monotonic() - self._monotonic)


class TwoPhaseStore:
    """The store behind it, with conditional writes decided by ``transactions``.

    ``root`` is the bucket's name in the records; give it when ``inner.url`` does not tell two buckets apart (the same name
    on two servers). A loser helps the winner to finish when that has not done so after ``patience`` seconds.
    """

    def __init__(
        self,
        inner: ObjectStore,
        transactions: TransactionStore,
        runtime: Runtime,
        *,
        mutable: Callable[[str], bool] = in_gc_folder,
        root: str | None = None,
        patience: float = 10.0,
    ) -> None:
        self._site = Site.of(inner, transactions, runtime, root)
        self._objects = inner
        self._transactions = transactions
        self._runtime = runtime
        self._mutable = mutable
        self._inline = InlineObjects(self._site)
        self._patience_ms = patience * 1000

    @property
    def url(self) -> str:
        return self._objects.url

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        if self._mutable(key):
            return await self._inline.get(key, if_none_match)
        found = await self._read(key, lambda name: self._objects.get(name, if_none_match=if_none_match))
        if found.meta.key == key:
            return found
        if not found.meta.key.endswith(checksum(found.data)):
            raise CorruptData("its bytes do not have the checksum in its name", object=found.meta.key)
        return replace(found, meta=replace(found.meta, key=key))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        if self._mutable(key):
            check_ranges(ranges)
            data = memoryview((await self._inline.get(key)).data)
            return [data[start:end] for start, end in ranges]
        return await self._read(key, lambda name: self._objects.get_ranges(name, ranges))

    async def head(self, key: str) -> ObjectMeta:
        if self._mutable(key):
            return (await self._inline.get(key)).meta
        found = await self._read(key, self._objects.head)
        return replace(found, key=key, attributes=(*found.attributes, (COPIED, "true")))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if self._mutable(key):
            return await self._inline.put(key, data, mode)
        match mode:
            case Create():
                return await self._create(key, data)
            case Update():
                raise InvalidError(
                    f"{key} is immutable on this store, which has no conditional writes of its own; name it in `mutable`"
                )
            case _:
                return await self._objects.put(key, data)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        if self._mutable(key):
            return await self._inline.put(key, b"".join([chunk async for chunk in chunks]), OVERWRITE)
        return await self._objects.put_stream(key, chunks)

    async def copy(self, source: str, destination: str) -> None:
        if self._mutable(source) or self._mutable(destination):
            await self.put(destination, (await self.get(source)).data)
        else:
            await self._read(source, lambda name: self._objects.copy(name, destination))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        # The records first: a write that is committed by now was copied before the listing begins.
        unsettled: list[str] = []
        async for records in self._transactions.list(self._site.name(prefix), committed=False):
            unsettled += [self._site.key(record.destination) for record in records]
        waiting = sorted((key for key in unsettled if key > start_after), reverse=True)
        async for page in self._objects.list(prefix, start_after=start_after):
            merged: list[ObjectMeta] = []
            for meta in page:
                while waiting and waiting[-1] < meta.key:
                    merged += await self._head_if_any(waiting.pop())
                if waiting and waiting[-1] == meta.key:
                    waiting.pop()
                if self._mutable(meta.key):
                    merged += await self._head_if_any(meta.key)
                elif not is_staged(meta.key):
                    merged.append(meta)
            if merged:
                yield merged
        rest = [meta for key in reversed(waiting) for meta in await self._head_if_any(key)]
        if rest:
            yield rest

    async def delete(self, keys: Iterable[str]) -> None:
        mutable: list[str] = []
        immutable: list[str] = []
        for key in keys:
            (mutable if self._mutable(key) else immutable).append(key)
        if immutable:
            # Objects first: while its record stands, a name cannot be created anew, so nothing new is deleted here.
            await self._objects.delete(immutable)
            await self._transactions.delete([self._site.name(key) for key in immutable])
        for key in mutable:
            await self._inline.delete(key)

    async def close(self) -> None:
        await self._transactions.close()
        await self._objects.close()

    async def recover(self, prefix: str = "") -> int:
        """Finish every write under ``prefix`` that its writer has not finished, and return how many there were."""
        return await recovery.recover(self._site, prefix, self._inline.repair)

    async def collect(self, *, older_than: float = 86_400.0, prefix: str = "", dry_run: bool = False) -> Collected:
        """Delete temporaries that nobody will use, and records of objects that are deleted, both older than
        ``older_than`` seconds: longer than any write takes, a day unless told otherwise. A dry run only counts them."""
        return await recovery.collect(self._site, prefix, older_than, dry_run=dry_run)

    async def _create(self, key: str, data: Buffer) -> str:
        try:
            await self._objects.head(key)
        except NotFound:
            pass
        else:
            raise Conflict(key, CREATE)
        stopwatch = Stopwatch(self._runtime)
        record = intent(self._site.name(key), data, self._runtime)
        try:
            etag = await self._objects.put(self._site.key(record.source), data)
        except StoreUnavailable as failure:
            # Whether or not the temporary is there, nothing happened to the object itself.
            raise StoreUnavailable(failure.message, retryable=failure.retryable) from failure
        standing = await self._transactions.put_if_absent(record)
        if standing is not None:
            await self._lose(record, standing)
            raise Conflict(key, CREATE)
        prompt = stopwatch.seconds() < _PROMPT_SECONDS
        try:
            landed = await recovery.finish(self._site, record, data)
        except (UnavailableError, Denied) as failure:
            if not prompt:
                why = f"{key} is recorded but not copied, and its temporary may be gone: {failure}; read the state anew"
                raise StoreUnavailable(why, unknown_outcome=True) from failure
            log.warning("%s is written and durable, but not at its place yet; recovery will copy it: %s", key, failure)
            return etag
        if landed is None:
            # We slept so long that others have finished and deleted the object, or given the write up.
            raise StoreUnavailable(f"the record of {key} is gone; read the state anew", unknown_outcome=True)
        return landed or etag

    async def _lose(self, record: Record, winner: Record) -> None:
        try:
            await self._objects.delete([self._site.key(record.source)])
            if winner.state is State.PENDING and self._runtime.now_ms() - winner.created_ms > self._patience_ms:
                await recovery.finish(self._site, winner)
        except (UnavailableError, Denied) as failure:
            log.warning("after a lost race for %s: %s", record.destination, failure)

    async def _read(self, key: str, read: Callable[[str], Awaitable[T]]) -> T:
        """``read(key)``, or of its temporary while that has not been copied."""
        try:
            return await read(key)
        except NotFound:
            record = await self._transactions.get(self._site.name(key))
            if record is None:
                raise
        if record.state is State.PENDING:
            try:
                return await read(self._site.key(record.source))
            except NotFound:
                pass  # it has been copied meanwhile, and the temporary deleted
        return await read(key)

    async def _head_if_any(self, key: str) -> Sequence[ObjectMeta]:
        try:
            return [await self.head(key)]
        except NotFound:
            return []
