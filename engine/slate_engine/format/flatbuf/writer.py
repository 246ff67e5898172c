"""Writes FlatBuffers by column: one call adds any number of tables, byte strings or vectors of one kind.

As in every FlatBuffers builder the buffer grows from its end towards its start, children before parents, so that offsets
point forward; a :data:`Refs` column says how far from the end each thing stands (0: it is absent). Adding only decides
where things go. :meth:`Builder.finish` then knows the size, and the kernels fill the one buffer that is returned.

Scalars equal to their default are left out, as upstream does. Tables whose present fields are the same share a vtable, and
a child that occurs twice may be given by the same ref.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from slate_engine.errors import InvalidError
from slate_engine.format.columns import I64, U8, U64
from slate_engine.format.flatbuf import lay
from slate_engine.format.flatbuf.field import Field, Kind
from slate_engine.format.flatbuf.spans import Spans

Refs = I64
"""Distances from the end of the buffer; 0 where there is nothing."""

MOST_BYTES = 2**31 - 1
"""Offsets to vtables are signed."""

Column = npt.NDArray[np.generic]


class Builder:
    """Collects what a FlatBuffer is to hold. Use :meth:`finish` once, at the end."""

    def __init__(self) -> None:
        self._size = 0
        self._fill: list[Callable[[U8, int], None]] = []
        self._vtables: dict[bytes, int] = {}
        self._vtables_size = 0
        self._alignment = 4

    def tables(self, n: int, columns: Mapping[Field, Column | int]) -> Refs:
        """Add ``n`` tables. Each column has a value for every table: a number, or the ref of a child; a single number
        stands for all."""
        if n == 0:
            return np.empty(0, np.int64)
        fields = tuple(columns)
        plan = _plan(fields)
        values = np.empty((len(fields), n), np.int64)
        for row, column in enumerate(columns.values()):
            values[row] = _wrapped(column) if isinstance(column, int) else column
        masks = np.empty(n, np.int64)
        lay.presence(values, plan.defaults, plan.always, masks)
        distinct = masks[:1] if (masks == masks[0]).all() else np.unique(masks)
        shapes = [_shape(fields, mask) for mask in distinct.tolist()]
        shape_of = np.searchsorted(distinct, masks)
        wide = np.array([shape.wide for shape in shapes], np.bool_)
        if wide.any():
            self._alignment = 8
        vtables = np.array([self._vtable(shape.vtable) for shape in shapes], np.int64)
        places = np.array([shape.places for shape in shapes], np.int64)
        sizes = np.array([shape.size for shape in shapes], np.int64)
        refs = np.empty(n, np.int64)
        self._size = lay.place_tables(shape_of, sizes, wide, self._size, refs)
        self._fill.append(
            lambda out, start: lay.fill_tables(
                out, start, refs, shape_of, vtables, places, plan.widths, plan.offset, values
            )
        )
        return refs

    def table(self, columns: Mapping[Field, int]) -> int:
        """Add one table; gives its ref, to be used where :meth:`tables` gives a column of them."""
        return int(self.tables(1, columns)[0])

    def strings(self, spans: Spans, *, terminated: bool) -> Refs:
        """Add a vector of bytes for each item, or a string if it is to be ``terminated`` by NUL."""
        refs = np.empty(len(spans), np.int64)
        self._size = lay.place_strings(spans.length, int(terminated), self._size, refs)
        self._fill.append(lambda out, _: lay.fill_strings(out, refs, spans.data, spans.start, spans.length))
        return refs

    def texts(self, texts: list[str | None]) -> Refs:
        return self.strings(Spans.of(None if text is None else text.encode() for text in texts), terminated=True)

    def vectors(self, refs: Refs, offsets: I64, *, omit_empty: bool = False) -> Refs:
        """Add vectors of tables: the elements of vector ``i`` are ``refs[offsets[i] : offsets[i+1]]``."""
        return self._vectors(refs, offsets, relative=True, omit_empty=omit_empty)

    def vector(self, refs: Refs) -> int:
        """Add one vector of tables; gives its ref."""
        return int(self.vectors(refs, np.array([0, len(refs)], np.int64))[0])

    def numbers(self, values: U64, offsets: I64, *, omit_empty: bool = False) -> Refs:
        """Add vectors of unsigned 32-bit numbers."""
        return self._vectors(values.astype(np.int64), offsets, relative=False, omit_empty=omit_empty)

    def finish(self, root: int, prefix: bytes = b"") -> bytes:
        """The finished buffer, with ``prefix`` before it. Alignment counts from behind the prefix."""
        # First the offset of the root, then the vtables. The whole is padded, so that what is aligned when one counts
        # from the end is so from the start.
        size = self._size + self._vtables_size + 4
        size += -size % self._alignment
        if size > MOST_BYTES:
            raise InvalidError(f"a FlatBuffer holds 2 GiB at the most, and this would take {size} bytes")
        out = np.zeros(len(prefix) + size, np.uint8)
        out[: len(prefix)] = np.frombuffer(prefix, np.uint8)
        for fill in self._fill:
            fill(out, len(prefix))
        head = (size - root).to_bytes(4, "little") + b"".join(self._vtables)
        out[len(prefix) : len(prefix) + len(head)] = np.frombuffer(head, np.uint8)
        return out.tobytes()

    def _vectors(self, values: I64, offsets: I64, *, relative: bool, omit_empty: bool) -> Refs:
        refs = np.empty(len(offsets) - 1, np.int64)
        self._size = lay.place_vectors(offsets, omit_empty, self._size, refs)
        self._fill.append(lambda out, _: lay.fill_vectors(out, refs, offsets, values, relative))
        return refs

    def _vtable(self, vtable: bytes) -> int:
        """The position of this vtable in the buffer; it is added if it is new."""
        at = self._vtables.get(vtable)
        if at is None:
            at = self._vtables[vtable] = 4 + self._vtables_size
            self._vtables_size += len(vtable)
        return at


@dataclass(frozen=True, slots=True)
class _Plan:
    """What the kernels want to know of some fields, by column."""

    widths: I64
    defaults: I64
    offset: lay.Flags
    always: lay.Flags


@functools.cache
def _plan(fields: tuple[Field, ...]) -> _Plan:
    return _Plan(
        np.array([field.width for field in fields], np.int64),
        np.array([field.default for field in fields], np.int64),
        np.array([field.kind is not Kind.SCALAR for field in fields], np.bool_),
        np.array([field.optional for field in fields], np.bool_),
    )


@dataclass(frozen=True, slots=True)
class _Shape:
    """How tables look in which the same fields are present: where each stands in the table, or 0."""

    places: tuple[int, ...]
    size: int
    wide: bool
    vtable: bytes


@functools.lru_cache(maxsize=4096)
def _shape(fields: tuple[Field, ...], mask: int) -> _Shape:
    """Narrow fields first and wide ones last, where their alignment costs the least."""
    places = [0] * len(fields)
    slots: dict[int, int] = {}
    place = 4
    for width in (2, 1, 4, 8):
        if width == 4:
            place += -place % 4
        for row, field in enumerate(fields):
            if mask >> row & 1 and field.width == width:
                places[row] = slots[field.slot] = place
                place += width
    entries = [slots.get(slot, 0) for slot in range(max(slots, default=-1) + 1)]
    vtable = np.array([4 + 2 * len(entries), place, *entries], "<u2").tobytes()
    wide = any(mask >> row & 1 and field.width == 8 for row, field in enumerate(fields))
    return _Shape(tuple(places), place, wide, vtable)


def _wrapped(value: int) -> int:
    """A 64-bit number, signed or not, as the signed one with the same bits."""
    if not -(1 << 63) <= value < 1 << 64:
        raise InvalidError(f"{value} takes more than 64 bits")
    return (value & 0xFFFF_FFFF_FFFF_FFFF ^ 1 << 63) - (1 << 63)
