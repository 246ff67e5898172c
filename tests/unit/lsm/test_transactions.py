"""Who loses a conflict, and that nothing is remembered for longer than it matters."""

from __future__ import annotations

from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from slate_engine.format.key_range import UNBOUNDED, Bound, KeyRange
from slate_engine.lsm.transactions import ENTRY_BYTES, Transactions

KEYS = st.sampled_from([b"", b"a", b"a\0", b"b", b"c"])
BOUNDS = st.one_of(st.just(UNBOUNDED), KEYS.map(Bound.included), KEYS.map(Bound.excluded))
RANGES = st.builds(KeyRange, BOUNDS, BOUNDS)


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


@settings(max_examples=500)
@given(st.lists(st.lists(KEYS, max_size=3), max_size=6), st.integers(0, 6), st.lists(RANGES, max_size=4))
def test_ranges_collide_with_the_keys_that_lie_in_them(
    commits: list[list[bytes]], seen: int, read: list[KeyRange]
) -> None:
    open_ones = Transactions()
    open_ones.begin(0)  # for its sake all of them are remembered
    reader = open_ones.begin(seen)
    reader.ranges += read
    for seq, keys in enumerate(commits, 1):
        open_ones.committed(keys, seq)
    phantoms = {key for keys in commits[seen:] for key in keys if any(key in each for each in read)}
    found = open_ones.conflict(reader)
    assert found in phantoms if phantoms else found is None


def test_not_every_key_is_held_against_every_range() -> None:
    open_ones = Transactions()
    reader = open_ones.begin(1)
    reader.ranges += [KeyRange.of_prefix(b"%04d/" % number) for number in range(100)]
    open_ones.committed([b"%04d" % number for number in range(1000)], 2)
    with mock.patch.object(KeyRange, "__contains__", autospec=True, side_effect=KeyRange.__contains__) as compared:
        assert open_ones.conflict(reader) is None
    assert compared.call_count <= 100


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


def test_who_stays_open_for_too_long_loses() -> None:
    """What is remembered for the sake of one is bounded, and what is not remembered may have been a conflict."""
    open_ones = Transactions(most_bytes=100 * (ENTRY_BYTES + 4))
    idle, reader, nothing = open_ones.begin(1), open_ones.begin(1), open_ones.begin(1)
    idle.reads.add(b"watched")
    reader.ranges.append(KeyRange.half_open(b"y", b"z"))
    for seq in range(2, 102):
        open_ones.committed([b"%d" % seq], seq)
    assert (open_ones.conflict(idle), open_ones.conflict(reader)) == (None, None)
    for seq in range(102, 10_000):
        open_ones.committed([b"%d" % seq], seq)
        assert len(open_ones._committed) <= 101, "keys of three digits are shorter"
    assert open_ones.conflict(idle) == b"watched"
    assert open_ones.conflict(reader) is not None
    assert open_ones.conflict(nothing) is None, "it has neither read nor written"
    late = open_ones.begin(9_999)
    late.writes.add(b"watched")
    assert open_ones.conflict(late) is None


def test_ending_one_does_not_go_through_all_that_is_remembered_for_another() -> None:
    open_ones = Transactions()
    open_ones.begin(1)
    for seq in range(2, 5000):
        open_ones.committed([b"%d" % seq], seq)
    remembered = open_ones._committed
    for seq in range(5000, 5100):
        open_ones.end(open_ones.begin(seq))
    assert open_ones._committed is remembered
    assert len(remembered) == 4998


def test_a_key_that_is_written_again_is_remembered_by_its_last_write() -> None:
    open_ones = Transactions()
    first, second = open_ones.begin(1), open_ones.begin(5)
    second.writes.add(b"k")
    open_ones.committed([b"k"], 2)
    open_ones.committed([b"other"], 3)
    open_ones.committed([b"k"], 6)
    open_ones.end(first)
    assert open_ones.conflict(second) == b"k"
    assert dict(open_ones._committed) == {b"k": 6}


def test_long_keys_count_by_their_length() -> None:
    open_ones = Transactions(most_bytes=1 << 20)
    first = open_ones.begin(1)
    for seq in range(2, 200):
        open_ones.committed([b"%d" % seq + b"x" * 60_000], seq)
        assert sum(map(len, open_ones._committed)) < 1 << 20
    open_ones.end(first)
    assert open_ones._bytes == 0
