"""The kernels under ``writer``: where things go (``place_…``), and putting them there (``fill_…``).

A place is a distance from the end of the buffer. Things are placed last to first, so that they stand in the order of their
column. The buffer ends where ``out`` does, which was zeroed, so that padding needs no care.
"""

from __future__ import annotations

import numpy as np

from slate_engine.format.columns import I64, U8
from slate_engine.format.kernel import kernel

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]


@kernel
def presence(values: I64, defaults: I64, always: Flags, out: I64) -> None:
    """For each table a bit per field: whether it is on the wire."""
    for i in range(values.shape[1]):
        out[i] = 0
    for row in range(values.shape[0]):
        bit = 1 << row
        for i in range(values.shape[1]):
            if always[row] or values[row, i] != defaults[row]:
                out[i] |= bit


@kernel
def place_tables(shape_of: I64, sizes: I64, wide: Flags, used: int, out: I64) -> int:
    for i in range(len(shape_of) - 1, -1, -1):
        shape = shape_of[i]
        # Eight-byte fields are the last ones of a table.
        if wide[shape] and used & 7:
            used += 4
        used += sizes[shape]
        out[i] = used
    return used


@kernel
def fill_tables(
    out: U8,
    start: int,
    refs: I64,
    shape_of: I64,
    vtables: I64,
    places: I64,
    widths: I64,
    offset: Flags,
    values: I64,
) -> None:
    for i in range(len(refs)):
        at = len(out) - refs[i]
        shape = shape_of[i]
        _put4(out, at, at - (start + vtables[shape]))
        for row in range(len(widths)):
            place = places[shape, row]
            if place == 0:
                continue
            value = values[row, i]
            if offset[row]:
                value = refs[i] - place - value
            _put(out, at + place, value, widths[row])


@kernel
def place_strings(lengths: I64, terminator: int, used: int, out: I64) -> int:
    for i in range(len(lengths) - 1, -1, -1):
        if lengths[i] < 0:
            out[i] = 0
            continue
        used += (4 + lengths[i] + terminator + 3) & ~3
        out[i] = used
    return used


@kernel
def fill_strings(out: U8, refs: I64, data: U8, start: I64, lengths: I64) -> None:
    for i in range(len(refs)):
        if refs[i] == 0:
            continue
        at = len(out) - refs[i]
        size = lengths[i]
        _put4(out, at, size)
        if size < 64:
            for k in range(size):
                out[at + 4 + k] = data[start[i] + k]
        else:
            out[at + 4 : at + 4 + size] = data[start[i] : start[i] + size]


@kernel
def place_vectors(offsets: I64, omit_empty: bool, used: int, out: I64) -> int:
    for i in range(len(offsets) - 2, -1, -1):
        if omit_empty and offsets[i + 1] == offsets[i]:
            out[i] = 0
            continue
        used += 4 + 4 * (offsets[i + 1] - offsets[i])
        out[i] = used
    return used


@kernel
def fill_vectors(out: U8, refs: I64, offsets: I64, values: I64, relative: bool) -> None:
    for i in range(len(refs)):
        if refs[i] == 0:
            continue
        _put4(out, len(out) - refs[i], offsets[i + 1] - offsets[i])
        place = refs[i] - 4
        for k in range(offsets[i], offsets[i + 1]):
            value = values[k]
            if relative:
                value = place - value
            _put4(out, len(out) - place, value)
            place -= 4


@kernel
def _put4(out: U8, at: int, value: int) -> None:
    # An unsigned index spares the check for a negative one, and the compiler makes a single store of the four.
    i = np.uintp(at)
    out[i] = value & 0xFF
    out[i + np.uintp(1)] = (value >> 8) & 0xFF
    out[i + np.uintp(2)] = (value >> 16) & 0xFF
    out[i + np.uintp(3)] = (value >> 24) & 0xFF


@kernel
def _put(out: U8, at: int, value: int, width: int) -> None:
    if width == 8:
        _put4(out, at, value)
        _put4(out, at + 4, value >> 32)
    elif width == 4:
        _put4(out, at, value)
    else:
        out[at] = value & 0xFF
        if width == 2:
            out[at + 1] = (value >> 8) & 0xFF
