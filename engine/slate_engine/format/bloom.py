"""Bloom filters, bit for bit those of SlateDB: u16 BE count of probes, then the bit array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from slate_engine.format.columns import U8, U64
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import octets, readonly
from slate_engine.format.siphash import siphash

_U32 = 0xFFFFFFFF


@kernel
def _wrapped(value: Any, bits: Any) -> Any:
    # Most sums need no division, which costs more than all the rest.
    return value if value < bits else value % bits


@kernel
def _insert(hashes: U64, probes: int, bits: Any, array: U8) -> None:
    for i in range(len(hashes)):
        position = (hashes[i] & np.uint64(0xFFFFFFFF)) % bits
        delta = (hashes[i] >> np.uint64(32)) % bits
        for probe in range(probes):
            delta = _wrapped(delta + np.uint64(probe), bits)
            array[position >> np.uint64(3)] |= np.uint8(1) << np.uint8(position & np.uint64(7))
            position = _wrapped(position + delta, bits)


@kernel
def _lookup(hashes: U64, probes: int, bits: Any, array: U8, found: npt.NDArray[np.bool_]) -> None:
    for i in range(len(hashes)):
        position = (hashes[i] & np.uint64(0xFFFFFFFF)) % bits
        delta = (hashes[i] >> np.uint64(32)) % bits
        found[i] = True
        for probe in range(probes):
            delta = _wrapped(delta + np.uint64(probe), bits)
            if not (array[position >> np.uint64(3)] >> np.uint8(position & np.uint64(7))) & np.uint8(1):
                found[i] = False
                break
            position = _wrapped(position + delta, bits)


@kernel
def _holds(key: U8, probes: int, array: U8) -> bool:
    """The same for one key, hash and all in one call: a point read asks nothing else."""
    bits = np.uint64(8 * len(array))
    hashed = siphash(key, 0, len(key))
    position = (hashed & np.uint64(0xFFFFFFFF)) % bits
    delta = (hashed >> np.uint64(32)) % bits
    for probe in range(probes):
        delta = _wrapped(delta + np.uint64(probe), bits)
        if not (array[position >> np.uint64(3)] >> np.uint8(position & np.uint64(7))) & np.uint8(1):
            return False
        position = _wrapped(position + delta, bits)
    return True


@dataclass(frozen=True, slots=True)
class BloomFilter:
    """A set of hashes that may answer yes by mistake, never no."""

    probes: int
    array: U8

    @staticmethod
    def of(hashes: U64, bits_per_key: int) -> BloomFilter:
        bits = len(hashes) * bits_per_key & _U32  # upstream counts them in a u32
        array = np.zeros((bits + 7) // 8, np.uint8)
        probes = min(int(np.float32(bits_per_key) * np.float32(0.69)), 0xFFFF)
        if len(array):
            _insert(readonly(hashes), probes, np.uint64(8 * len(array)), array)
        return BloomFilter(probes, array)

    @staticmethod
    def decode(data: Any) -> BloomFilter:
        """From the data of a filter block, which has at least the count of probes."""
        return BloomFilter(int.from_bytes(data[:2], "big"), octets(data)[2:])

    def encode(self) -> bytes:
        return self.probes.to_bytes(2, "big") + self.array.tobytes()

    def contains(self, hashes: U64) -> npt.NDArray[np.bool_]:
        """For each hash: may it be in the set?"""
        found = np.zeros(len(hashes), np.bool_)
        if len(self.array):  # a filter that was built from nothing holds nothing
            _lookup(readonly(hashes), self.probes, np.uint64(8 * len(self.array)), readonly(self.array), found)
        return found

    def holds(self, key: U8) -> bool:
        """May this one key be in the set?"""
        return len(self.array) > 0 and _holds(key, self.probes, readonly(self.array))
