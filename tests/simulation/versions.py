"""The numbered objects of one kind, as the inspector knows them: manifests, or the books of compactors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass
class Versions(Generic[T]):
    """One of them counts: the newest above the boundary. Which fields of it never go back is in ``monotonic``."""

    kind: str
    monotonic: Sequence[str]
    found: dict[int, T] = field(default_factory=dict)
    boundary: int = 0

    @property
    def newest_id(self) -> int:
        newest = max(self.found, default=0)
        return newest if newest > self.boundary else 0

    @property
    def newest(self) -> T | None:
        return self.found.get(self.newest_id)

    def add(self, id: int, value: T, *, is_live: bool) -> bool:
        """Whether it counts: one that comes below the boundary has come too late."""
        before_id, before = self.newest_id, self.newest
        assert id > self.boundary or id not in self.found, f"{self.kind} {id} was written over"
        self.found[id] = value
        if id <= self.boundary:
            return False
        if before is not None:
            assert id == before_id + 1, f"{self.kind} {id} was created after {before_id}"
            for name in self.monotonic if is_live else ():
                old, new = getattr(before, name), getattr(value, name)
                assert old <= new, f"{name} went back from {old} to {new} with {self.kind} {id}"
        return True

    def remove(self, id: int, *, is_live: bool) -> None:
        if is_live:
            assert id <= self.boundary, f"{self.kind} {id} was deleted above the boundary {self.boundary}"
        del self.found[id]

    def advance(self, boundary: int, *, is_live: bool) -> None:
        if is_live:
            assert boundary >= self.boundary, f"the boundary went from {self.boundary} to {boundary}"
            newest = max(self.found)
            assert boundary < newest, f"the boundary went to {boundary}, the newest {self.kind} is {newest}"
        self.boundary = boundary
