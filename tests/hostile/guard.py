"""``python -m tests.hostile.guard <cases>``: kernels on buffers that end where memory ends.

Every input and every output lies flush against a page that must not be touched. A kernel that reads or writes one byte too
many ends the process with a segmentation fault; nothing else would show it.
"""

from __future__ import annotations

import ctypes
import mmap
import random
import sys
from typing import Any

import numpy as np

from slate_engine.errors import CorruptData
from slate_engine.format import block_build, blocks, bloom, checksum, siphash
from slate_engine.format.columns import Bytes, Rows
from slate_engine.format.sst import open_sst
from tests.hostile.mutations import mutate
from tests.hostile.test_sst_bytes import FILES

PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)


def guarded(shape: int | tuple[int, ...], dtype: Any = np.uint8) -> np.ndarray[Any, Any]:
    """An uninitialised array whose last byte is the last before a forbidden page."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    pages = -(-size // PAGE)
    area = mmap.mmap(-1, (pages + 1) * PAGE)
    whole = np.frombuffer(area, np.uint8)
    if _libc.mprotect(ctypes.c_void_p(whole.ctypes.data + pages * PAGE), PAGE, 0):
        raise OSError(ctypes.get_errno(), "mprotect")
    return whole[pages * PAGE - size : pages * PAGE].view(dtype).reshape(shape)


class Numpy:
    """NumPy, with an ``empty`` that is guarded."""

    empty = staticmethod(guarded)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


def placed(data: bytes) -> np.ndarray[Any, Any]:
    array = guarded(len(data))
    array[:] = np.frombuffer(data, np.uint8)
    return array


def column(items: list[bytes]) -> Bytes:
    return Bytes(placed(b"".join(items)), Bytes.of(items).offsets)


def read_blocks(chance: random.Random, cases: int) -> None:
    for name in ("sst NONE", "wal NONE", "sst version 1"):
        opened = open_sst(FILES[name])
        index = opened.index()
        raw = [bytes(opened.data[s : e - 4]) for s, e in zip(index.starts, index.ends, strict=True)]
        for _ in range(cases):
            block = chance.choice(raw)
            for _ in range(chance.randint(0, 2)):
                block = mutate(chance, block) or b"\x00"
            section = placed(checksum.sealed(block))
            ends = np.array([len(section)])
            try:
                blocks.decode_blocks(section, ends * 0, ends, version=opened.version, codec=opened.info.codec)
            except CorruptData:
                continue


def write_blocks(chance: random.Random, cases: int) -> None:
    for _ in range(cases):
        items = sorted({chance.randbytes(chance.choice([1, 2, 7, 8, 9, 33, 200])) for _ in range(40)})
        keys, n = column(items), len(items)
        values = column([chance.randbytes(chance.randint(0, 300)) for _ in items])
        flags = np.array([chance.choice([0, 2, 4, 6, 8]) for _ in items], np.uint8)
        rows = Rows(keys, values, np.ones(n, np.uint64), flags, np.ones(n, np.int64), np.ones(n, np.int64))
        builder = block_build.BlockBuilder(chance.choice([1, 50, 1024, 65_536]), by_key=True, seal=True)
        middle = chance.randint(0, n)
        builder.append(rows.slice(0, middle))
        builder.append(rows.slice(middle, n))
        builder.finish()
        bloom.BloomFilter.of(siphash.hash_items(keys), 10)


def main() -> None:
    cases, chance = int(sys.argv[1]), random.Random(11)
    numpy: Any = Numpy()
    for module in (blocks, block_build, siphash):
        module.np = numpy  # type: ignore[attr-defined]
    read_blocks(chance, cases)
    write_blocks(chance, cases)
    print("unharmed")


if __name__ == "__main__":
    main()
