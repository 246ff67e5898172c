"""Reads FlatBuffers by column: :class:`Tables` is many tables of one kind, and each access gives a field of all of them.

Nothing is trusted. Whatever is read is first checked as the official verifier does: bounds, alignment, vtables, required
fields, the NUL of strings. How deep the buffer is followed depends on the caller's schema alone, never on the bytes, so
there are no cycles to fear. Offsets that share their targets could still make a small file look huge; hence the vectors
that one access visits may not hold more than the file has room for. Tables may be shared, vectors that hold something not.

An absent table stands at position 0, where no table can be, and all of its fields are absent.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt

from slate_engine.errors import CorruptData
from slate_engine.format.columns import I64, U64
from slate_engine.format.flatbuf import walk
from slate_engine.format.flatbuf.field import Field, Kind
from slate_engine.format.flatbuf.spans import Spans, readonly


class Source:
    """One finished FlatBuffer. ``object`` names where it came from, ``base`` the place of its first byte there: both are
    for errors only."""

    __slots__ = ("base", "data", "object")

    def __init__(self, data: bytes | bytearray | memoryview, *, object: str, base: int) -> None:
        self.data = readonly(data)
        self.object = object
        self.base = base

    def root(self) -> Tables:
        at = np.empty(1, np.int64)
        self.check(walk.root(self.data, at), None)
        return Tables(self, at)

    def check(self, result: tuple[int, int], field: Field | None) -> None:
        """Raise what a kernel has found, if it has found anything."""
        problem, at = result
        if problem:
            where = f"{field}: " if field is not None else ""
            raise self.error(where + walk.PROBLEMS[problem], at)

    def error(self, reason: str, at: int) -> CorruptData:
        """The error for what stands at byte ``at`` of the FlatBuffer."""
        return CorruptData(reason, object=self.object, offset=self.base + at)


class Tables:
    """Tables of one kind, given by their positions in the buffer."""

    __slots__ = ("at", "source")

    def __init__(self, source: Source, at: I64, field: Field | None = None) -> None:
        source.check(walk.check_tables(source.data, at), field)
        self.source = source
        self.at = at

    def __len__(self) -> int:
        return len(self.at)

    def u64(self, *fields: Field) -> list[U64]:
        """Scalar fields of every table, a column each. Signed ones come as their two's complement."""
        out = np.empty((len(fields), len(self.at)), np.uint64)
        problem, at, which = walk.scalars(self.source.data, self.at, *_scalar_plan(fields), out)
        self.source.check((problem, at), fields[which])
        return list(out)

    def numbers(self, *fields: Field) -> list[list[int]]:
        """The same as Python's own numbers."""
        columns = zip(fields, self.u64(*fields), strict=True)
        return [(column.view(np.int64) if field.signed else column).tolist() for field, column in columns]

    def child(self, field: Field) -> Tables:
        """The table that this field of every table points to."""
        assert field.kind is Kind.TABLE
        return Tables(self.source, self._follow(field), field)

    def children(self, field: Field) -> tuple[Tables, I64]:
        """The tables of this vector of every table, all in one; those of table ``i`` are ``[ends[i], ends[i+1])``."""
        assert field.kind is Kind.TABLES
        starts, lengths = self._vectors(field)
        offsets = _running(lengths)
        at = np.empty(int(offsets[-1]), np.int64)
        self.source.check(walk.elements_at(self.source.data, starts, lengths, at), field)
        return Tables(self.source, at, field), offsets

    def spans(self, field: Field) -> Spans:
        """The bytes of this vector or string of every table, where they lie. A string is not yet known to be UTF-8."""
        assert field.element == 1
        return Spans(self.source.data, *self._vectors(field))

    def strings(self, field: Field) -> list[str | None]:
        assert field.kind is Kind.STRING
        spans = self.spans(field)
        texts: list[str | None] = []
        for i, item in enumerate(spans):
            try:
                texts.append(None if item is None else item.decode("utf-8"))
            except UnicodeDecodeError as broken:
                at = int(spans.start[i]) + broken.start
                raise self.source.error(f"{field}: a string is not UTF-8", at) from None
        return texts

    def elements(self, field: Field) -> tuple[U64, I64]:
        """The elements of this vector of unsigned scalars of every table, flattened like :meth:`children`. An absent
        vector has no elements."""
        assert field.kind is Kind.SCALARS
        assert not field.signed
        starts, lengths = self._vectors(field)
        offsets = _running(lengths)
        out = np.empty(int(offsets[-1]), np.uint64)
        walk.elements(self.source.data, starts, lengths, field.element, out)
        return out, offsets

    def has(self, field: Field) -> npt.NDArray[np.bool_]:
        """Whether the offset in this field of every table is there."""
        assert field.kind is not Kind.SCALAR
        return np.not_equal(self._follow(field), 0)

    def where(self, condition: npt.NDArray[np.bool_]) -> Tables:
        """The same with all tables absent for which the condition does not hold."""
        return Tables(self.source, np.where(condition, self.at, 0))

    def error(self, reason: str, i: int) -> CorruptData:
        """The error for what is wrong with table ``i``."""
        return self.source.error(reason, int(self.at[i]))

    def _follow(self, field: Field) -> I64:
        out = np.empty(len(self.at), np.int64)
        self.source.check(walk.follow(self.source.data, self.at, field.slot, field.required, out), field)
        return out

    def _vectors(self, field: Field) -> tuple[I64, I64]:
        starts = self._follow(field)
        lengths = np.empty(len(starts), np.int64)
        terminated = field.kind is Kind.STRING
        # An element that is an offset leads to a table, which takes another four bytes at least.
        least = 8 if field.kind is Kind.TABLES else field.element
        self.source.check(walk.vectors(self.source.data, starts, field.element, least, terminated, lengths), field)
        return starts, lengths


@functools.cache
def _scalar_plan(fields: tuple[Field, ...]) -> tuple[I64, I64, I64, I64]:
    """What the kernel wants to know of scalar fields: slots, widths, whether signed, defaults."""
    assert all(field.kind is Kind.SCALAR for field in fields)
    plan = [(field.slot, field.width, field.signed, field.default) for field in fields]
    slots, widths, signed, defaults = np.array(plan, np.int64).reshape(-1, 4).T.copy()
    return slots, widths, signed, defaults


def _running(lengths: I64) -> I64:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(np.maximum(lengths, 0), out=offsets[1:])
    return offsets
