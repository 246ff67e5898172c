"""What a pass found, and what it did about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from slate_engine.errors import Error
from slate_engine.gc.options import Kind
from slate_engine.store.cost import GIB, PriceList


@dataclass(frozen=True, slots=True)
class Garbage:
    """An object that may go, or an entry of the manifest (then it has no size); and why."""

    kind: Kind
    name: str
    size: int
    why: str


@dataclass(frozen=True)
class Found:
    """What one task found. ``ripe_ms`` is when the oldest of what is merely too young yet will be old enough."""

    garbage: list[Garbage] = field(default_factory=list)
    ripe_ms: int | None = None


@dataclass(frozen=True)
class KindReport:
    """What became of one kind. If nothing had changed since the last pass, there was no need to look, and none is found."""

    kind: Kind
    garbage: list[Garbage] = field(default_factory=list)
    dry_run: bool = False
    error: Error | None = None

    @property
    def size(self) -> int:
        """Bytes that were freed, or would have been."""
        return sum(each.size for each in self.garbage)

    def dollars_a_month(self, prices: PriceList) -> float:
        """What it costs to store them."""
        return dollars_a_month(self.size, prices)


@dataclass(frozen=True)
class Report:
    """One pass over one database."""

    path: str
    kinds: tuple[KindReport, ...] = ()
    gone: bool = False
    """There is no database here, or not any more."""
    waiting: str | None = None
    """Why a softly destroyed database is not deleted yet."""
    trouble: Error | None = None
    """Why nothing at all was looked at."""

    def __iter__(self) -> Iterator[Garbage]:
        return (each for kind in self.kinds for each in kind.garbage)

    def kind(self, kind: Kind) -> KindReport:
        return next((each for each in self.kinds if each.kind is kind), KindReport(kind))

    @property
    def errors(self) -> list[Error]:
        found = [self.trouble, *(kind.error for kind in self.kinds)]
        return [error for error in found if error is not None]

    @property
    def size(self) -> int:
        """Bytes that were freed, or would have been."""
        return sum(kind.size for kind in self.kinds)

    def dollars_a_month(self, prices: PriceList) -> float:
        """What it costs to store them."""
        return dollars_a_month(self.size, prices)


Deleted: TypeAlias = Callable[[Kind, int], None]
"""Told, after each request, how many more objects of a kind are gone."""


def unheard(kind: Kind, objects: int) -> None:
    """For those who need not be told."""


def dollars_a_month(size: int, prices: PriceList) -> float:
    return size / GIB * prices.storage
