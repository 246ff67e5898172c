"""Damage to a file, drawn from a seed: what disks, networks, bugs and enemies do to bytes."""

from __future__ import annotations

import random
from collections.abc import Callable

Mutation = Callable[[random.Random, bytes], bytes]


def flip(chance: random.Random, data: bytes) -> bytes:
    """One to three bits."""
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        out[chance.randrange(len(out))] ^= 1 << chance.randrange(8)
    return bytes(out)


def overwrite(chance: random.Random, data: bytes) -> bytes:
    """A word, with the values that break arithmetic."""
    width = chance.choice([1, 2, 4, 8])
    word = chance.choice([0, 1, (1 << 8 * width) - 1, 1 << (8 * width - 1), chance.getrandbits(8 * width)])
    at = chance.randrange(len(data))
    return (data[:at] + word.to_bytes(width, chance.choice(["big", "little"])) + data[at + width :])[: len(data)]


def cut(chance: random.Random, data: bytes) -> bytes:
    """The end is missing, or the beginning."""
    at = chance.randrange(len(data))
    return data[:at] if chance.random() < 0.7 else data[at:]


def extend(chance: random.Random, data: bytes) -> bytes:
    """Something follows, or comes before."""
    extra = chance.choice(
        [bytes(chance.randint(1, 40)), chance.randbytes(chance.randint(1, 40)), data[: chance.randint(1, 400)]]
    )
    return data + extra if chance.random() < 0.7 else extra + data


def remove(chance: random.Random, data: bytes) -> bytes:
    """A piece from the middle is gone."""
    at, length = chance.randrange(len(data)), chance.randint(1, 64)
    return data[:at] + data[at + length :]


def repeat(chance: random.Random, data: bytes) -> bytes:
    """A piece in the middle is there twice."""
    at, length = chance.randrange(len(data)), chance.randint(1, 64)
    return data[: at + length] + data[at:]


def swap(chance: random.Random, data: bytes) -> bytes:
    """Two pieces of the same length have changed places."""
    length = min(chance.randint(1, 512), len(data) // 2)
    a = chance.randrange(len(data) - 2 * length + 1)
    b = chance.randrange(a + length, len(data) - length + 1)
    return data[:a] + data[b : b + length] + data[a + length : b] + data[a : a + length] + data[b + length :]


ALL: list[Mutation] = [flip, flip, overwrite, overwrite, cut, extend, remove, repeat, swap]
SAME_LENGTH: list[Mutation] = [flip, overwrite, overwrite, swap]


def mutate(chance: random.Random, data: bytes, kinds: list[Mutation] = ALL) -> bytes:
    """One random mutation."""
    return chance.choice(kinds)(chance, data)
