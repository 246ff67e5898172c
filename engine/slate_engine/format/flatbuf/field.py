"""What reader and writer must know of one field of a table; ``layout`` holds one for each field of our schemas."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Kind(enum.Enum):
    """What stands in a field's place in the table: the value itself, or the offset of something."""

    SCALAR = "scalar"
    STRING = "string"
    SCALARS = "vector of scalars"
    TABLE = "table"
    TABLES = "vector of tables"


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of one table. Fields are compared by identity: ``layout`` has exactly one object for each.

    ``width`` is the number of bytes in the table itself, ``element`` that of a vector's element. An ``optional`` scalar
    has no default: it is on the wire whenever it has a value, and its absence means something.
    """

    table: str
    name: str
    slot: int
    kind: Kind
    width: int = 4
    element: int = 0
    signed: bool = False
    default: int = 0
    optional: bool = False
    required: bool = False

    def __str__(self) -> str:
        return f"{self.table}.{self.name}"
