"""Who loses a conflict, and that nothing is remembered for longer than it matters."""

from __future__ import annotations

from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.transactions import Transactions


def test_a_write_after_the_start_beats_a_write_of_the_same_key() -> None:
    open_ones = Transactions()
    early = open_ones.begin(5)
    early.writes.add(b"k")
    assert open_ones.conflict(early) is None
    open_ones.committed([b"other"], 6)
    assert open_ones.conflict(early) is None
    open_ones.committed([b"k"], 7)
    assert open_ones.conflict(early) == b"k"
    late = open_ones.begin(7)
    late.writes.add(b"k")
    assert open_ones.conflict(late) is None


def test_reads_count_only_when_they_were_recorded() -> None:
    open_ones = Transactions()
    plain, serializable = open_ones.begin(1), open_ones.begin(1)
    serializable.reads.add(b"read")
    open_ones.committed([b"read"], 2)
    assert open_ones.conflict(plain) is None
    assert open_ones.conflict(serializable) == b"read"


def test_a_phantom_in_a_read_range_is_a_conflict() -> None:
    open_ones = Transactions()
    reader = open_ones.begin(1)
    reader.ranges.append(KeyRange.half_open(b"b", b"d"))
    open_ones.committed([b"a", b"d"], 2)
    assert open_ones.conflict(reader) is None
    open_ones.committed([b"c"], 3)
    assert open_ones.conflict(reader) == b"c"


def test_commits_are_forgotten_when_nobody_can_collide_with_them() -> None:
    open_ones = Transactions()
    open_ones.committed([b"k"], 1)
    first, second = open_ones.begin(1), open_ones.begin(2)
    assert open_ones.min_seq() == 1
    for seq in range(3, 3000):
        open_ones.committed([b"%d" % seq], seq)
    open_ones.end(first)
    assert open_ones.min_seq() == 2
    open_ones.end(second)
    open_ones.end(second)
    assert open_ones.min_seq() is None
    assert open_ones._committed == {}
