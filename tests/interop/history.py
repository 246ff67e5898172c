"""What was written to a database, and what must be read from it: a model so plain that it is right by inspection."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from slate_engine.format.key_range import ALL, KeyRange


class Kind(enum.Enum):
    PUT = 0
    DELETE = TOMBSTONE
    MERGE = MERGE


class Operation(NamedTuple):
    """One row of a commit. ``expire_ts`` is in milliseconds, None for a row that lives for ever."""

    kind: Kind
    key: bytes
    value: bytes = b""
    expire_ts: int | None = None


class Version(NamedTuple):
    """A row as it is stored."""

    key: bytes
    value: bytes
    seq: int
    kind: Kind
    create_ts: int
    expire_ts: int | None

    def columns(self) -> tuple[bytes, bytes, int, int, int, int]:
        """The row in the order of the columns of ``Rows``."""
        flags = self.kind.value | HAS_CREATE | (0 if self.expire_ts is None else HAS_EXPIRE)
        return self.key, self.value, self.seq, flags, self.create_ts, self.expire_ts or 0


class Row(NamedTuple):
    """A row as a reader sees it: what the original calls a ``KeyValue``."""

    key: bytes
    value: bytes
    seq: int
    create_ts: int
    expire_ts: int | None


@dataclass(frozen=True)
class Commit:
    """Rows that were written at once; no key twice."""

    seq: int
    create_ts: int
    operations: tuple[Operation, ...]

    def versions(self) -> list[Version]:
        """In key order, as in a WAL."""
        return [
            Version(op.key, op.value, self.seq, op.kind, self.create_ts, op.expire_ts)
            for op in sorted(self.operations, key=lambda op: op.key)
        ]


class Concat:
    """The merge operator of all databases in these tests. The order of operands shows in its result."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


@dataclass
class Model:
    """Every version of every key, newest first. Nothing is ever dropped, and nothing expires: SlateDB shows an expired row
    until somebody rewrites it."""

    versions: dict[bytes, list[Version]] = field(default_factory=dict)

    def apply(self, commit: Commit) -> None:
        for version in commit.versions():
            self.versions.setdefault(version.key, []).insert(0, version)

    def within(self, keys: KeyRange) -> Model:
        """A copy that knows these keys only."""
        return Model({key: list(versions) for key, versions in self.versions.items() if key in keys})

    def rows(self, keys: KeyRange = ALL) -> list[Row]:
        """What a scan gives."""
        found = (self.row(key) for key in sorted(self.versions) if key in keys)
        return [row for row in found if row is not None]

    def row(self, key: bytes) -> Row | None:
        """What a point read gives: the newest value, or operands folded onto the value below them."""
        operands: list[Version] = []
        for version in self.versions.get(key, []):
            if version.kind is not Kind.MERGE:
                return _folded(operands, version)
            operands.append(version)
        return _folded(operands, None)


def _folded(operands: list[Version], base: Version | None) -> Row | None:
    """``operands`` come newest first. A deleted base adds nothing to the value, but its times count."""
    if not operands and (base is None or base.kind is Kind.DELETE):
        return None
    parts = [*operands, *([base] if base else [])]
    return Row(
        parts[0].key,
        b"".join(part.value for part in reversed(parts)),
        parts[0].seq,
        max(part.create_ts for part in parts),
        min((part.expire_ts for part in parts if part.expire_ts is not None), default=None),
    )


def sorted_versions(versions: Iterable[Version]) -> list[Version]:
    """In the order of an SST: by key, the newest version of a key first."""
    return sorted(versions, key=lambda version: (version.key, -version.seq))
