"""Unaligned access to raw bytes, for kernels.

Numba would read a big-endian word one byte at a time and check every index for being negative. These intrinsics compile to
the one machine instruction that is meant. They check nothing: a kernel calls them only with positions that it has compared
with the end of the buffer, and its outputs are allocated from sizes that an earlier, checking pass has measured.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import cgutils, types

from slate_engine.format.columns import U8

# Numba annotates these for its own purposes, not for those of a caller.
intrinsic: Any = extending.intrinsic
emitter: Any = cgutils

_BYTE = ir.IntType(8)
_WORD = ir.IntType(64)

LOOSE = 32
"""How many bytes :func:`copy_loose` moves, whatever the item's length: buffers it writes to are this much longer."""


def readonly(array: np.ndarray[Any, Any]) -> Any:
    """The array as every kernel takes its inputs. Whether an array may be written to is part of its type for numba, so
    bytes from the network and arrays made here would compile each kernel once more; all inputs are made read-only."""
    if array.flags.writeable or not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).view()
        array.flags.writeable = False
    return array


def octets(data: Any) -> U8:
    """Any contiguous bytes-like object as a read-only array, without a copy."""
    return cast(U8, readonly(data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)))


def address(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    """The LLVM pointer to byte ``at`` of an array argument."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(builder.bitcast(data, _BYTE.as_pointer()), [at])


def _loader(bits: int, result: Any, *, big_endian: bool) -> Any:
    # Instances compiled and cached under one name would shadow each other, so each loader is a closure of its own.
    def load(typing: Any, array: Any, at: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            pointer = address(context, builder, signature.args[0], *arguments)
            value = builder.load(builder.bitcast(pointer, word.as_pointer()), align=1)
            if big_endian and bits > 8:
                value = builder.bswap(value)
            return builder.zext(value, _WORD) if bits < 64 else value

        return result(array, types.int64), emit

    return intrinsic(load)


def _storer(bits: int) -> Any:
    def store(typing: Any, array: Any, at: Any, value: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            word = ir.IntType(bits)
            pointer = address(context, builder, signature.args[0], *arguments[:2])
            value = builder.trunc(arguments[2], word) if bits < 64 else arguments[2]
            if bits > 8:
                value = builder.bswap(value)
            builder.store(value, builder.bitcast(pointer, word.as_pointer()), align=1)
            return context.get_dummy_value()

        return types.void(array, types.int64, types.uint64), emit

    return intrinsic(store)


def _copy(typing: Any, target: Any, to: Any, source: Any, at: Any, length: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, to, source, at, length = arguments
        emitter.raw_memcpy(
            builder,
            address(context, builder, signature.args[0], target, to),
            address(context, builder, signature.args[2], source, at),
            length,
            1,
        )
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64, types.int64), emit


def _copy_loose(typing: Any, target: Any, to: Any, source: Any, at: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, to, source, at = arguments
        lane = ir.VectorType(_BYTE, LOOSE).as_pointer()
        loaded = builder.load(builder.bitcast(address(context, builder, signature.args[2], source, at), lane), align=1)
        pointer = builder.bitcast(address(context, builder, signature.args[0], target, to), lane)
        builder.store(loaded, pointer, align=1)
        return context.get_dummy_value()

    return types.void(target, types.int64, source, types.int64), emit


def _trailing_zeros(typing: Any, value: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.int64(types.uint64), emit


load_u8: Callable[[U8, int], int] = _loader(8, types.int64, big_endian=True)
load_be16: Callable[[U8, int], int] = _loader(16, types.int64, big_endian=True)
load_be32: Callable[[U8, int], int] = _loader(32, types.int64, big_endian=True)
load_be64: Callable[[U8, int], Any] = _loader(64, types.uint64, big_endian=True)
load_le64: Callable[[U8, int], Any] = _loader(64, types.uint64, big_endian=False)

store_u8: Callable[[U8, int, Any], None] = _storer(8)
store_be16: Callable[[U8, int, Any], None] = _storer(16)
store_be32: Callable[[U8, int, Any], None] = _storer(32)
store_be64: Callable[[U8, int, Any], None] = _storer(64)

copy: Callable[[U8, int, U8, int, int], None] = intrinsic(_copy)
"""``copy(target, to, source, at, length)``: the two must not overlap."""

copy_loose: Callable[[U8, int, U8, int], None] = intrinsic(_copy_loose)
"""Copy exactly ``LOOSE`` bytes in one instruction; the caller overwrites what was too much."""

trailing_zeros: Callable[[Any], int] = intrinsic(_trailing_zeros)
