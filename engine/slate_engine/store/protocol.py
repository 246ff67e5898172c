"""The one seam to storage: the :class:`ObjectStore` protocol and the values that cross it.

Everything the engine does to a bucket goes through these few calls. A backend implements them with the conditional writes
that its service really has, and nothing that checks first and writes afterwards. Keys are relative to the store's root,
without a leading slash.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from slate_engine.errors import InvalidError, UnavailableError

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Anything that holds bytes contiguously. Backends return whatever they have without copying."""


Attributes: TypeAlias = tuple[tuple[str, str], ...]
"""Names and values that a service keeps beside an object's bytes. Names are of lower-case letters, digits and ``_``."""


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """What a listing or a HEAD says of an object. ``etag`` names this very content and is what update-if-match takes."""

    key: str
    size: int
    last_modified_ms: int
    etag: str
    attributes: Attributes = field(default=(), compare=False)
    """What its creator noted. Only ``head`` tells, and only where the service keeps such notes: never rely on it."""


COPIED = "copied"
"""The attribute of an object that its store copies to its place after the write has counted, perhaps more than once. Its
time is that of the last copy."""


@dataclass(frozen=True, slots=True)
class Object:
    """An object's bytes, with the meta data that belonged to exactly these bytes."""

    meta: ObjectMeta
    data: Buffer


@dataclass(frozen=True, slots=True)
class Overwrite:
    """Put whatever was there before. Only for names that nobody else writes."""


@dataclass(frozen=True, slots=True)
class Create:
    """Put only if no object has this name: of any number of concurrent creators exactly one succeeds. ``attributes`` are
    kept with the object where the service can do that; local files and two-phase stores drop them."""

    attributes: Attributes = field(default=(), compare=False)


@dataclass(frozen=True, slots=True)
class Update:
    """Put only if the object still has this etag: of any number of concurrent updaters exactly one succeeds."""

    etag: str


PutMode: TypeAlias = Overwrite | Create | Update
OVERWRITE = Overwrite()
CREATE = Create()


class NotFound(UnavailableError):
    """No object has this key."""

    def __init__(self, key: str) -> None:
        super().__init__(f"object {key} does not exist")
        self.key = key


class NotModified(Exception):
    """A conditional GET found the etag that the caller already has. Control flow, not a failure."""


class Conflict(UnavailableError):
    """A conditional write lost: the object exists already (create), or has changed or gone (update)."""

    def __init__(self, key: str, mode: PutMode) -> None:
        what = "already exists" if isinstance(mode, Create) else "is not at the expected version any more"
        super().__init__(f"object {key} {what}")
        self.key = key
        self.mode = mode


class Denied(InvalidError):
    """The store refused the credentials or the permission. Nothing was carried out. Where a database is opened that is an
    error of the caller's; a writer that was let in before waits for a while (:mod:`slate_engine.lsm.outage`)."""


class StoreUnavailable(UnavailableError):
    """The store failed or could not be reached. ``retryable`` says whether the same call may succeed later;
    ``unknown_outcome`` that a write may nevertheless have been carried out."""

    def __init__(self, message: str, *, retryable: bool = True, unknown_outcome: bool = False) -> None:
        super().__init__(message)
        self.retryable = retryable
        self.unknown_outcome = unknown_outcome


class ObjectStore(Protocol):
    """A bucket, container or folder, seen through the calls that SlateDB needs."""

    @property
    def url(self) -> str:
        """Where this is, for people and logs. Never holds credentials."""
        ...

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        """The whole object. Raises :class:`NotFound`, or :class:`NotModified` when its etag is ``if_none_match``."""
        ...

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        """The bytes ``[start, end)`` of each range. A range that reaches past the end is cut there; one that begins at
        or past the end gives no bytes."""
        ...

    async def head(self, key: str) -> ObjectMeta: ...

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        """Store the object whole, or not at all; returns its etag. Raises :class:`Conflict` when ``mode`` forbids it."""
        ...

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        """Like ``put`` with ``OVERWRITE`` for an object that is too large to hold in memory. Nothing is visible under
        ``key`` until the last chunk is stored; if ``chunks`` raises, nothing ever is."""
        ...

    async def copy(self, source: str, destination: str) -> None:
        """Copy inside the store, without the bytes passing through here where the service can do that. Overwrites."""
        ...

    def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        """Pages of the objects whose key begins with ``prefix`` and is greater than ``start_after``, in key order."""
        ...

    async def delete(self, keys: Iterable[str]) -> None:
        """Delete all of these; a key that does not exist counts as deleted."""
        ...

    async def close(self) -> None:
        """Give back connections. The store is not used afterwards."""
        ...
