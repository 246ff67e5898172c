"""The record of one conditional write, as the transactional store keeps it, and the name of its temporary object."""

from __future__ import annotations

import enum
import hashlib
import re
from dataclasses import dataclass, replace

from slate_engine.runtime import Runtime, uuid4
from slate_engine.store.protocol import Buffer

STAGING = ".two-phase"
"""The folder, beside the destination, that holds its temporary objects.

RFC-0001 puts them into the destination's own folder and adds that the place is arbitrary. It is not quite: SlateDB's
collector takes what stands before the first dot of a name in ``wal/`` for the id of a WAL file, and a temporary that a
crash left there makes it delete the real file of that id by the temporary's age. A folder whose name begins with a dot
is no id, and is passed over. It lies beside the destination, not at the root of the store, because two processes may reach
one database through different roots.
"""

_STAGED = re.compile(
    rf"(?P<folder>(?:.*/)?){re.escape(STAGING)}/(?P<name>[^/]+)\.[0-9a-f-]{{36}}\.[0-9a-f]{{32}}", re.DOTALL
)


class State(enum.StrEnum):
    PENDING = "pending"
    """The write is decided; its bytes may still be in the temporary object only."""
    COMMITTED = "committed"
    """The bytes stand under their name. From here on the object store alone tells the truth."""
    INLINE = "inline"
    """The record itself holds the bytes of a mutable object, and is the truth about it for ever."""
    DELETED = "deleted"
    """A mutable object that was deleted. The record stays, so that a late copy in the bucket cannot bring it back."""


@dataclass(frozen=True, slots=True)
class Record:
    """One row of the transactional store. ``destination``, its key, and ``source`` are full names: root and object key."""

    destination: str
    version: str
    """Unique for each write of the destination: what a conditional change of the record compares."""
    state: State
    source: str
    """The temporary object; empty for mutable objects, which need none."""
    checksum: str
    size: int
    created_ms: int
    content: bytes | None = None

    def committed(self) -> Record:
        """The same write, known to stand under its name. Keeps the version: two who commit it at once both succeed."""
        return replace(self, state=State.COMMITTED)


def checksum(data: Buffer) -> str:
    """BLAKE2b cut to 128 bits in hex, as ``b2sum -l 128`` prints it."""
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def intent(destination: str, data: Buffer, runtime: Runtime) -> Record:
    """The record of a new immutable object, with a temporary name that no other write has."""
    version, digest = str(uuid4(runtime)), checksum(data)
    folder, _, name = destination.rpartition("/")
    source = f"{folder}/{STAGING}/{name}.{version}.{digest}"
    return Record(destination, version, State.PENDING, source, digest, len(data), runtime.now_ms())


def inlined(destination: str, data: Buffer, runtime: Runtime) -> Record:
    """The record that is to hold a mutable object's bytes."""
    version, content = str(uuid4(runtime)), bytes(data)
    return Record(destination, version, State.INLINE, "", checksum(content), len(content), runtime.now_ms(), content)


def tombstone(destination: str, runtime: Runtime) -> Record:
    return Record(destination, str(uuid4(runtime)), State.DELETED, "", "", 0, runtime.now_ms())


def destination_of(key: str) -> str | None:
    """The key whose temporary object this is, or None if it is an ordinary object."""
    parts = _STAGED.fullmatch(key)
    return parts["folder"] + parts["name"] if parts else None


def is_staged(key: str) -> bool:
    """Whether this is the temporary object of a write, which no listing shows."""
    return STAGING in key and destination_of(key) is not None
