"""The memtable answers point reads at any sequence number, and gives the same rows as sorted columns."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from slate_engine.lsm.memtable import Memtable
from slate_engine.lsm.row import Row


def commit(seq: int, *pairs: tuple[bytes, bytes]) -> list[Row]:
    return [Row(key, value, seq, 4, 1000 + seq, 0) for key, value in pairs]


def test_versions_are_found_at_every_sequence_number() -> None:
    table = Memtable()
    table.insert(commit(1, (b"a", b"1"), (b"b", b"1")))
    table.insert(commit(5, (b"a", b"5")))
    table.insert(commit(9, (b"a", b"9")))
    found = {seq: [row.value for row in table.versions(b"a", seq)] for seq in (0, 1, 4, 5, 8, 9, 10)}
    one, two, three = [b"1"], [b"5", b"1"], [b"9", b"5", b"1"]
    assert found == {0: [], 1: one, 4: one, 5: two, 8: two, 9: three, 10: three}
    assert list(table.versions(b"c", 10)) == []


def test_rows_follow_every_insert() -> None:
    table = Memtable()
    assert len(table.rows()) == 0
    table.insert(commit(1, (b"b", b"1"), (b"c", b"1")))
    assert list(table.rows().keys) == [b"b", b"c"]
    table.insert(commit(2, (b"a", b"2"), (b"c", b"2")))
    assert list(zip(table.rows().keys, table.rows().seq.tolist(), strict=True)) == [
        (b"a", 2),
        (b"b", 1),
        (b"c", 2),
        (b"c", 1),
    ]
    assert (table.first_seq, table.last_seq, table.max_create_ts) == (1, 2, 1002)
    assert table.memory_bytes > table.payload_bytes == 8


@given(st.lists(st.lists(st.binary(min_size=1, max_size=3), min_size=1, max_size=6, unique=True), max_size=12))
@example([])
def test_pieces_are_the_rows_and_keep_the_versions_of_a_key_together(commits: list[list[bytes]]) -> None:
    table = Memtable()
    for seq, keys in enumerate(commits, 1):
        table.insert(commit(seq, *((key, b"%d" % seq) for key in sorted(keys))))
    pieces = [list(piece.tuples()) for piece in table.pieces(keys_at_once=3)]
    assert [row for piece in pieces for row in piece] == list(table.rows().tuples())
    for before, after in pairwise(pieces):
        assert before[-1][0] < after[0][0]
