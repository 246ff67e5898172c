"""What the writers of a database were told, and whether what is read from it agrees.

The changes of commit ``number`` of writer ``tag`` follow from these two, so nobody has to send them anywhere; and each
commit writes a row under its own name, so that what is read says itself which commits it is made of.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change

NAME = b"!"


class Row(NamedTuple):
    key: bytes
    value: bytes
    seq: int


class Join:
    """The merge operator of these databases; the order of operands shows."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


def name_of(tag: str, number: int) -> bytes:
    return b"%b%b/%06d" % (NAME, tag.encode(), number)


def changes_of(tag: str, number: int) -> list[Change]:
    """A few changes to a few keys, and the name of the commit."""
    chance = random.Random(f"{tag}/{number}")
    changes = [Change(name_of(tag, number), b"")]
    for place in range(chance.randint(1, 4)):
        flags = chance.choice([0, 0, 0, MERGE, TOMBSTONE])
        value = f"{tag}.{number}.{place};".encode() + b"x" * chance.choice([0, 0, 200])
        changes.append(Change(b"k%02d" % chance.randrange(30), b"" if flags & TOMBSTONE else value, flags))
    return changes


@dataclass
class Book:
    """All that was acknowledged, by anybody."""

    acknowledged: set[bytes] = field(default_factory=set)
    _seen: dict[str, frozenset[bytes]] = field(default_factory=dict)

    def check(self, reader: str, rows: Iterable[Row], must_have: Iterable[bytes] | None = None) -> frozenset[bytes]:
        """Fails unless ``rows`` are exactly what some commits come to: all that were acknowledged (or ``must_have``), of
        each writer the first ones, and none less than this reader has seen before."""
        found = {row.key: (row.value, row.seq) for row in rows}
        names = sorted((name for name in found if name.startswith(NAME)), key=lambda name: found[name][1])
        for before, after in itertools.pairwise(names):
            assert found[before][1] < found[after][1], f"{reader}: {before!r} and {after!r} have the same number"
        assert found == _state_of(names, found), f"{reader} sees torn or misplaced commits"
        for tag, mine in itertools.groupby(sorted(names), key=lambda name: name.partition(b"/")[0]):
            numbers = [int(name.partition(b"/")[2]) for name in mine]
            assert numbers == list(range(len(numbers))), (
                f"{reader}: of {tag!r} not the first commits are there: {numbers}"
            )
        commits = frozenset(names)
        lost = set(self.acknowledged if must_have is None else must_have) - commits
        assert not lost, f"{reader} does not see what was acknowledged: {sorted(lost)}"
        gone = self._seen.get(reader, frozenset()) - commits
        assert not gone, f"{reader} does not see any more: {sorted(gone)}"
        self._seen[reader] = commits
        return commits


def _state_of(names: list[bytes], found: dict[bytes, tuple[bytes, int]]) -> dict[bytes, tuple[bytes, int]]:
    state: dict[bytes, tuple[bytes, int]] = {}
    for name in names:
        tag, _, number = name.removeprefix(NAME).decode().partition("/")
        seq = found[name][1]
        for change in changes_of(tag, int(number)):
            if change.flags & TOMBSTONE:
                state.pop(change.key, None)
            elif change.flags & MERGE:
                state[change.key] = state.get(change.key, (b"", 0))[0] + change.value, seq
            else:
                state[change.key] = change.value, seq
    return state
