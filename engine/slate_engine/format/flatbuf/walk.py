"""The kernels under ``reader``: they walk tables and vectors in a buffer, and check every step before they take it.

Each returns ``(problem, position)``; problem 0 is none, any other is an index into :data:`PROBLEMS`. Positions count from
the start of the FlatBuffer, as alignment does.
"""

from __future__ import annotations

import numpy as np

from slate_engine.format.columns import I64, U8, U64
from slate_engine.format.kernel import kernel

PROBLEMS = (
    "",
    "the buffer ends in the middle of what begins here",
    "a value is not aligned to its size",
    "a vtable lies outside of the buffer or has an odd length",
    "a required field is missing",
    "an offset points outside of the buffer",
    "a vector reaches past the end of the buffer",
    "vectors hold more than the buffer has room for: some of them share their bytes",
    "a string lacks its terminating NUL",
)
OK, SHORT, MISALIGNED, VTABLE, MISSING, OFFSET, VECTOR, SHARED, NUL = range(9)

Found = tuple[int, int]


@kernel
def _u16(data: U8, at: int) -> int:
    # An unsigned index spares the check for a negative one, and the compiler sees a single load.
    i = np.uintp(at)
    return int(np.int64(data[i]) | np.int64(data[i + np.uintp(1)]) << 8)


@kernel
def _u32(data: U8, at: int) -> int:
    i = np.uintp(at)
    return int(
        np.int64(data[i])
        | np.int64(data[i + np.uintp(1)]) << 8
        | np.int64(data[i + np.uintp(2)]) << 16
        | np.int64(data[i + np.uintp(3)]) << 24
    )


@kernel
def _number(data: U8, at: int, width: int) -> int:
    """An unsigned number of 1, 2, 4 or 8 bytes; the last one as the signed number with the same bits."""
    if width == 8:
        return _u32(data, at) | _u32(data, at + 4) << 32
    if width == 4:
        return _u32(data, at)
    if width == 2:
        return _u16(data, at)
    return int(np.int64(data[at]))


@kernel
def _vtable(data: U8, table: int) -> int:
    low = _u32(data, table)
    return table - (low - ((low & 0x80000000) << 1))


@kernel
def _field(data: U8, table: int, vtable: int, slot: int) -> int:
    """The position of a field of a checked table, or 0 if it is absent."""
    entry = 4 + 2 * slot
    if entry + 2 > _u16(data, vtable):
        return 0
    offset = _u16(data, vtable + entry)
    if offset == 0:
        return 0
    return table + offset


@kernel
def root(data: U8, out: I64) -> Found:
    if len(data) < 8:
        return SHORT, len(data)
    at = _u32(data, 0)
    if at < 4 or at + 4 > len(data):
        return OFFSET, 0
    if at & 3:
        return MISALIGNED, at
    out[0] = at
    return OK, 0


@kernel
def check_tables(data: U8, tables: I64) -> Found:
    """Positions are inside and aligned already; here the vtables are checked."""
    size = len(data)
    for i in range(len(tables)):
        table = tables[i]
        if table == 0:
            continue
        vtable = _vtable(data, table)
        if vtable < 0 or vtable + 2 > size or vtable & 1:
            return VTABLE, table
        length = _u16(data, vtable)
        # Four bytes hold the lengths of the vtable itself and of the table.
        if length < 4 or length & 1 or vtable + length > size:
            return VTABLE, vtable
    return OK, 0


@kernel
def scalars(
    data: U8, tables: I64, slots: I64, widths: I64, signed: I64, defaults: I64, out: U64
) -> tuple[int, int, int]:
    """Several fields at once, each to its row of ``out``. Here the problem comes with the field that has it."""
    size = len(data)
    for i in range(len(tables)):
        table = tables[i]
        vtable = _vtable(data, table) if table != 0 else 0
        for field in range(len(slots)):
            width = widths[field]
            at = _field(data, table, vtable, slots[field]) if table != 0 else 0
            if at == 0:
                out[field, i] = defaults[field]
                continue
            if at + width > size:
                return SHORT, table, field
            if at & (width - 1):
                return MISALIGNED, at, field
            value = _number(data, at, width)
            if signed[field] and width < 8 and value >> (8 * width - 1):
                value -= 1 << (8 * width)
            out[field, i] = value
    return OK, 0, 0


@kernel
def follow(data: U8, tables: I64, slot: int, required: bool, out: I64) -> Found:
    """Where the offset in a field leads; 0 where the field is absent."""
    size = len(data)
    for i in range(len(tables)):
        out[i] = 0
        if tables[i] == 0:
            continue
        at = _field(data, tables[i], _vtable(data, tables[i]), slot)
        if at == 0:
            if required:
                return MISSING, tables[i]
            continue
        if at + 4 > size:
            return SHORT, tables[i]
        if at & 3:
            return MISALIGNED, at
        target = at + _u32(data, at)
        # Zero would lead to the offset itself, which is never a table nor a vector.
        if target == at or target + 4 > size:
            return OFFSET, at
        if target & 3:
            return MISALIGNED, target
        out[i] = target
    return OK, 0


@kernel
def vectors(data: U8, starts: I64, element: int, least: int, terminated: bool, lengths: I64) -> Found:
    """Turn the positions of vectors into those of their first elements, and give their lengths; -1 for an absent one.

    ``least`` is what one element takes at the least, with all that hangs on it."""
    size = len(data)
    room = size
    for i in range(len(starts)):
        at = starts[i]
        if at == 0:
            lengths[i] = -1
            continue
        length = _u32(data, at)
        end = at + 4 + length * element
        if end > size:
            return VECTOR, at
        if length > 0 and element == 8 and (at + 4) & 7:
            return MISALIGNED, at
        if terminated and (end >= size or data[end] != 0):
            return NUL, end
        room -= length * least
        if room < 0:
            return SHARED, at
        starts[i] = at + 4
        lengths[i] = length
    return OK, 0


@kernel
def elements_at(data: U8, starts: I64, lengths: I64, out: I64) -> Found:
    """Where the offsets that are the elements of vectors lead, one vector after the other."""
    size = len(data)
    n = 0
    for i in range(len(starts)):
        for k in range(max(lengths[i], 0)):
            at = starts[i] + 4 * k
            target = at + _u32(data, at)
            if target == at or target + 4 > size:
                return OFFSET, at
            if target & 3:
                return MISALIGNED, target
            out[n] = target
            n += 1
    return OK, 0


@kernel
def elements(data: U8, starts: I64, lengths: I64, width: int, out: U64) -> None:
    """The elements of vectors of unsigned numbers, one vector after the other."""
    n = 0
    for i in range(len(starts)):
        for k in range(max(lengths[i], 0)):
            at = starts[i] + width * k
            out[n] = _number(data, at, width)
            n += 1
