"""What the bytes of databases cost in a month, by what they are kept for."""

from __future__ import annotations

from dataclasses import dataclass

from slate_operator.api.database import SlateDatabase
from slate_operator.plugin.view import View

S3_STANDARD = 0.023
"""Dollars for a GiB and a month, by the list price of the first 50 TB."""
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Line:
    """One database. What is shared with its source is in its present bytes too, but is paid for there."""

    namespace: str
    name: str
    present_bytes: int
    checkpoint_bytes: int
    """Kept for nothing but its Checkpoints."""
    shared_bytes: int
    price: float
    known: bool = True
    """False if the operator has not said a size yet."""

    @property
    def dollars(self) -> float:
        return max(self.present_bytes - self.shared_bytes + self.checkpoint_bytes, 0) / GIB * self.price


def lines(view: View, price: float) -> list[Line]:
    """All databases, the most expensive one first."""
    return sorted((_line(view, each, price) for each in view.databases), key=lambda line: -line.dollars)


def _line(view: View, database: SlateDatabase, price: float) -> Line:
    origin = view.origin_of(database)
    return Line(
        namespace=database.metadata.namespace,
        name=database.metadata.name,
        present_bytes=database.status.size_bytes or 0,
        checkpoint_bytes=sum(each.status.pinned_bytes or 0 for each in view.checkpoints_of(database)),
        shared_bytes=(origin.status.shared_bytes or 0) if origin is not None else 0,
        price=price,
        known=database.status.size_bytes is not None,
    )
