"""CRC-32 (the polynomial of zlib) of the sections of a file.

A section is ``payload ‖ u32 BE crc32(payload)``. A scan checks tens of thousands of 4 KiB sections at once, so the check is
a kernel that runs without the GIL: on x86 it folds with carry-less multiplication (Gopal et al., "Fast CRC Computation
for Generic Polynomials Using PCLMULQDQ", Intel 2009) at the speed of memory, three times that of zlib and more; elsewhere
it looks up tables, sixteen bytes a step.
"""

from __future__ import annotations

import zlib
from typing import Any, cast

import llvmlite.binding
import numba
import numpy as np
import numpy.typing as npt
from llvmlite import ir
from numba.core import types

from slate_engine.errors import CorruptData
from slate_engine.format.columns import I64, U8
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import (
    address,
    emitter,
    intrinsic,
    load_be32,
    load_le64,
    load_u8,
    octets,
    readonly,
    store_be32,
)

SIZE = 4
"""Bytes that a checksum adds to a section."""

_POLYNOMIAL = 0x04C11DB7
_LANE = ir.VectorType(ir.IntType(64), 2)
_TWO_WORDS: Any = cast(Any, types).UniTuple(types.uint64, 2)


def _reflected(value: int, bits: int) -> int:
    return int(f"{value:0{bits}b}"[::-1], 2)


def _tables() -> npt.NDArray[np.uint32]:
    """``tables[k, b]``: what byte ``b`` becomes after ``k`` more bytes of zeros."""
    tables = np.zeros((16, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (_reflected(_POLYNOMIAL, 32) if crc & 1 else 0)
        tables[0, byte] = crc
    for step in range(1, 16):
        previous = tables[step - 1]
        tables[step] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


def _power(exponent: int) -> int:
    """x to the ``exponent`` modulo the polynomial, in the bit order of the carry-less multiplier."""
    value = 1
    for _ in range(exponent):
        value <<= 1
        if value >> 32:
            value ^= 1 << 32 | _POLYNOMIAL
    return _reflected(value, 32) << 1


_TABLES = _tables()
_BY_64 = (_power(4 * 128 + 32), _power(4 * 128 - 32))
_BY_16 = (_power(128 + 32), _power(128 - 32))
"""Multipliers that carry the two halves of a 16-byte lane over 64 and over 16 bytes of message."""


def _fold_lanes(typing: Any, array: Any, at: Any, length: Any, crc: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array, at, length, crc = arguments
        multiply = emitter.get_or_insert_function(
            builder.module, ir.FunctionType(_LANE, [_LANE, _LANE, ir.IntType(8)]), "llvm.x86.pclmulqdq"
        )

        def constant(value: int) -> Any:
            return ir.Constant(ir.IntType(64), value)

        def load(position: Any) -> Any:
            pointer = address(context, builder, signature.args[0], array, position)
            return builder.load(builder.bitcast(pointer, _LANE.as_pointer()), align=1)

        def fold(lane: Any, multipliers: tuple[int, int], message: Any) -> Any:
            factors = ir.Constant(_LANE, list(multipliers))
            low = builder.call(multiply, [lane, factors, ir.Constant(ir.IntType(8), 0x00)])
            high = builder.call(multiply, [lane, factors, ir.Constant(ir.IntType(8), 0x11)])
            return builder.xor(builder.xor(low, high), message)

        lanes = [emitter.alloca_once_value(builder, load(builder.add(at, constant(16 * i)))) for i in range(4)]
        start = builder.insert_element(ir.Constant(_LANE, [0, 0]), crc, ir.Constant(ir.IntType(32), 0))
        builder.store(builder.xor(builder.load(lanes[0]), start), lanes[0])
        wide = builder.udiv(length, constant(64))
        with emitter.for_range(builder, builder.sub(wide, constant(1))) as loop:
            here = builder.add(at, builder.mul(builder.add(loop.index, constant(1)), constant(64)))
            for i, lane in enumerate(lanes):
                message = load(builder.add(here, constant(16 * i)))
                builder.store(fold(builder.load(lane), _BY_64, message), lane)
        folded = lanes[0]
        for lane in lanes[1:]:
            builder.store(fold(builder.load(folded), _BY_16, builder.load(lane)), folded)
        rest = builder.udiv(builder.sub(length, builder.mul(wide, constant(64))), constant(16))
        with emitter.for_range(builder, rest) as loop:
            offset = builder.add(builder.mul(wide, constant(64)), builder.mul(loop.index, constant(16)))
            builder.store(fold(builder.load(folded), _BY_16, load(builder.add(at, offset))), folded)
        lane = builder.load(folded)
        halves = [builder.extract_element(lane, ir.Constant(ir.IntType(32), half)) for half in (0, 1)]
        return context.make_tuple(builder, signature.return_type, halves)

    return _TWO_WORDS(array, types.int64, types.int64, types.uint64), emit


_folded: Any = intrinsic(_fold_lanes)
"""``_folded(array, at, length, crc)``: sixteen bytes, as two words, with the same remainder as ``length`` bytes; that is a
multiple of 16, and 64 at least."""


@kernel
def _sixteen(low: Any, high: Any) -> Any:
    """The checksum state after the sixteen bytes in two little-endian words, the state before mixed into the first."""
    byte = np.uint64(0xFF)
    crc = np.uint32(0)
    for i in range(8):
        shift = np.uint64(8 * i)
        crc ^= _TABLES[15 - i, (low >> shift) & byte] ^ _TABLES[7 - i, (high >> shift) & byte]
    return np.uint64(crc)


@kernel
def by_tables(buffer: U8, at: int, length: int, crc: Any) -> Any:
    """Advance the state over ``length`` bytes, a multiple of 16, on any machine."""
    for here in range(at, at + length, 16):
        crc = _sixteen(load_le64(buffer, here) ^ crc, load_le64(buffer, here + 8))
    return crc


@kernel
def by_folding(buffer: U8, at: int, length: int, crc: Any) -> Any:
    """The same with the carry-less multiplier."""
    if length < 64:
        return by_tables(buffer, at, length, crc)
    low, high = _folded(buffer, at, length, crc)
    return _sixteen(low, high)


def multiplies() -> bool:
    # Whoever overrides the processor for numba gets code for that one, which has the instruction only if he says so.
    settings: Any = numba.config
    if (settings.CPU_NAME or settings.CPU_FEATURES) and "+pclmul" not in (settings.CPU_FEATURES or "").split(","):
        return False
    return bool(llvmlite.binding.get_host_cpu_features().get("pclmul", False))


_advance = by_folding if multiplies() else by_tables


@kernel
def crc32(buffer: U8, start: int, end: int) -> Any:
    """The checksum of ``buffer[start:end]``, for use inside other kernels."""
    ones = np.uint64(0xFFFFFFFF)
    whole = (end - start) & ~15
    crc = _advance(buffer, start, whole, ones)
    for at in range(start + whole, end):
        low = (crc ^ np.uint64(load_u8(buffer, at))) & np.uint64(0xFF)
        crc = np.uint64(_TABLES[0, low]) ^ (crc >> np.uint64(8))
    return crc ^ ones


@kernel
def _first_mismatch(buffer: U8, starts: I64, ends: I64) -> int:
    for i in range(len(starts)):
        payload_end = ends[i] - SIZE
        if crc32(buffer, starts[i], payload_end) != np.uint64(load_be32(buffer, payload_end)):
            return i
    return -1


def verify(buffer: U8, starts: I64, ends: I64, *, object: str, base: int) -> None:
    """Check the sections ``[starts[i], ends[i])`` of a buffer, which begins at byte ``base`` of the object."""
    outside = (starts < 0) | (ends > len(buffer)) | (ends - starts <= SIZE)
    if outside.any():
        i = int(np.flatnonzero(outside)[0])
        raise CorruptData(
            f"a section of {int(ends[i]) - int(starts[i])} bytes does not hold a payload and its checksum",
            object=object,
            offset=base + int(starts[i]),
        )
    bad = _first_mismatch(octets(buffer), readonly(starts), readonly(ends))
    if bad >= 0:
        raise CorruptData("the checksum does not match", object=object, offset=base + int(starts[bad]))


@kernel
def _seal(buffer: U8, ends: I64) -> None:
    start = 0
    for i in range(len(ends)):
        payload_end = int(ends[i]) - SIZE
        store_be32(buffer, payload_end, crc32(buffer, start, payload_end))
        start = int(ends[i])


def seal(buffer: U8, ends: I64) -> None:
    """Write the checksums of sections that stand one after another, into the room that each has for it."""
    _seal(buffer, readonly(ends))


def opened(section: Any, *, object: str, base: int) -> memoryview:
    """The payload of one section, checked."""
    view = memoryview(section).cast("B")
    if len(view) <= SIZE:
        raise CorruptData(f"a section of {len(view)} bytes", object=object, offset=base)
    payload = view[:-SIZE]
    if zlib.crc32(payload) != int.from_bytes(view[-SIZE:], "big"):
        raise CorruptData("the checksum does not match", object=object, offset=base)
    return payload


def sealed(payload: Any) -> bytes:
    """The payload with its checksum: one section."""
    return b"".join((payload, zlib.crc32(payload).to_bytes(SIZE, "big")))
