"""What the controllers need of a database, whose pods answer it. The operator itself never touches a bucket."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from slate_operator.api.database import SlateDatabase


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    id: str
    name: str | None
    manifest_id: int
    created_at_s: int
    expires_at_s: int | None


@dataclass(frozen=True, slots=True)
class ParentFacts:
    path: str
    ssts: int
    size_bytes: int
    """Of those that are still read, and lie at the parent's."""
    final_checkpoint_id: str | None


@dataclass(frozen=True, slots=True)
class DatabaseFacts:
    """How a database is, read from its bytes."""

    path: str
    state: str
    """``alive``, ``destroyed`` … as the engine's ``life_of`` has it."""
    destroyed_at_s: int | None
    manifest_id: int
    writer_epoch: int
    compactor_epoch: int
    l0_ssts: int
    sorted_runs: int
    size_bytes: int
    dollars_a_month: float
    checkpoints: Sequence[CheckpointFacts] = ()
    parents: Sequence[ParentFacts] = ()
    log_trouble: str | None = None
    """Why nothing can read or open it: a WAL file that it needs is missing."""


@dataclass(frozen=True, slots=True)
class OperationFacts:
    """Long work under way in a database's pod."""

    id: str
    state: str
    """``running``, ``succeeded`` or ``failed``."""
    progress: Mapping[str, Any] = field(default_factory=dict)
    result: Mapping[str, Any] = field(default_factory=dict)
    problem: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompactionFacts:
    """A job in the book of a database's compactor."""

    id: str
    state: str
    """``submitted``, ``scheduled``, ``running``, ``compacted``, ``completed`` or ``failed``."""
    input_bytes: int
    """What it reads; 0 when it has ended."""
    submitted_at_s: int
    worker: str | None
    """Who has claimed it; None while it waits."""
    heartbeat_at_s: int | None
    description: str


@dataclass(frozen=True, slots=True)
class Owner:
    """Who a path belongs to: written into the bucket, so that another cluster sees it too."""

    uid: str
    namespace: str
    name: str


class Problem(Exception):
    """The database's pod refuses. ``kind`` is the last word of the problem's type, such as ``no-database``."""

    def __init__(self, status: int, kind: str, detail: str, document: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.document = document or {}


class NotReached(Exception):
    """The pod does not answer. Its message says what was tried, and never a token."""


class Admin(Protocol):
    """The admin API of one database. Every call may be repeated."""

    async def status(self) -> DatabaseFacts: ...

    async def claim(self, owner: Owner, expect: str, instead_of: str | None = None) -> None:
        """Mark the path as the owner's. ``expect`` is ``empty``, ``database`` or ``destroyed``: what has to be there at the
        first claim. Otherwise :class:`Problem` ``owned-by-another``, ``database-exists``, ``no-database`` or
        ``not-destroyed``.
        """

    async def owner(self) -> Owner | None:
        """Whose the path is; None if nobody's, also if its last owner has given it back."""

    async def release(self, owner: Owner) -> None:
        """Give the path back; the name is remembered, so that an object of the same name may have it again."""

    async def checkpoint(self, id: str) -> CheckpointFacts | None: ...

    async def put_checkpoint(
        self, id: str, *, lifetime_s: float | None, name: str | None, source: str | None
    ) -> CheckpointFacts: ...

    async def refresh_checkpoint(self, id: str, lifetime_s: float | None) -> CheckpointFacts: ...

    async def delete_checkpoint(self, id: str) -> None: ...

    async def pinned_bytes(self) -> Mapping[str, int]:
        """Bytes that nothing but a checkpoint keeps, of every checkpoint by its id. It takes a listing of the database."""

    async def compactions(self) -> Sequence[CompactionFacts]:
        """What its compactor has planned, the oldest first; nothing where none has ever run."""

    async def put_operation(self, id: str, work: Mapping[str, Any]) -> OperationFacts: ...

    async def operation(self, id: str) -> OperationFacts | None: ...

    async def is_destroying(self) -> bool:
        """Whether a destruction that was asked for has not ended yet."""

    async def flush(self, *, to_ssts: bool) -> None:
        """Ask the writer's pod to bring everything to object storage, as SSTs or in the log; needs a running writer of the
        mode Server."""


class Databases(Protocol):
    """Where the admin APIs of databases are found."""

    def admin(self, database: SlateDatabase) -> Admin:
        """The admin API of this database: its GC pod's, at its Service, with its token and its certificate authority."""
