"""The memtable answers point reads at any sequence number, and gives the same rows as sorted columns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from slate_engine.format.columns import EMPTY, Rows
from slate_engine.format.key_range import ALL, UNBOUNDED, Bound, KeyRange
from slate_engine.lsm.memtable import INLINE_ROWS, MANY, SETTLED_ROWS, Memtable
from slate_engine.lsm.order import is_sorted_by_version, take
from slate_engine.lsm.row import Row
from slate_engine.lsm.visible import merge_sources
from slate_engine.runtime import SystemRuntime


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
    pieces = [list(piece.tuples()) for piece in table.pieces(bytes_at_once=6)]
    assert [row for piece in pieces for row in piece] == list(table.rows().tuples())
    for before, after in pairwise(pieces):
        assert before[-1][0] < after[0][0]


def test_versions_are_found_wherever_they_have_settled() -> None:
    """A key is written again and again while small and large commits come in between."""
    table, written = Memtable(), []
    for seq in range(1, 2 * SETTLED_ROWS):
        others = [(b"%d-%d" % (seq, i), b"") for i in range(MANY if seq % 50 == 0 else 1)]
        table.insert(commit(seq, (b"key", b"%d" % seq), *others))
        written.append(b"%d" % seq)
        assert next(table.versions(b"key", seq)).value == b"%d" % seq
        assert next(table.versions(b"%d-0" % max(1, seq // 2), seq)).seq == max(1, seq // 2)
    assert [row.value for row in table.versions(b"key", 1 << 62)] == written[::-1]
    table.settle()
    assert [row.value for row in table.versions(b"key", 700)] == written[:700][::-1]


def test_a_version_is_given_once_even_if_it_settles_meanwhile() -> None:
    table = Memtable()
    table.insert(commit(1, (b"a", b"1")))
    table.insert(commit(2, (b"a", b"2")))
    versions = table.versions(b"a", 9)
    first = next(versions)
    table.settle()
    assert [first.value, *(row.value for row in versions)] == [b"2", b"1"]


async def test_memory_is_counted_as_long_as_it_is_held() -> None:
    table = Memtable()
    table.insert(commit(1, *((b"%04d" % i, b"") for i in range(1000))))
    alone = table.memory_bytes
    await table.in_order(None)
    assert table.memory_bytes >= alone + 4000, "the order that a scan made is memory, too"


# --- scans -----------------------------------------------------------------------------------------------------------

KEYS = st.lists(st.binary(min_size=1, max_size=2), min_size=1, max_size=6, unique=True)
BOUNDS = st.one_of(
    st.just(UNBOUNDED), st.builds(Bound.included, KEYS.map(min)), st.builds(Bound.excluded, KEYS.map(min))
)


@given(st.lists(st.tuples(KEYS, st.booleans()), max_size=12), BOUNDS, BOUNDS)
def test_a_range_has_the_versions_of_its_keys_however_often_somebody_scans(
    commits: list[tuple[list[bytes], bool]], start: Bound, end: Bound
) -> None:
    table, wanted = Memtable(), KeyRange(start, end)
    for seq, (keys, scanned) in enumerate(commits, 1):
        table.insert(commit(seq, *((key, b"%d" % seq) for key in sorted(keys))))
        if scanned:
            asyncio.run(table.in_order(None))
    in_order = asyncio.run(table.in_order(None))
    runs = in_order.within(wanted)
    assert all(is_sorted_by_version(run) for run in runs)
    expected = [row for row in table.rows().tuples() if row[0] in wanted]
    assert list(merged(runs).tuples()) == expected
    assert len(in_order.runs) <= 1 + len(table).bit_length(), "a scan looks at few runs"


def merged(runs: list[Rows]) -> Rows:
    """As a scan does it: of the same key, what is in an earlier run is newer."""
    rows, order = merge_sources(runs or [EMPTY])
    return take(rows, order)


async def test_what_was_sorted_is_not_sorted_again() -> None:
    table = Memtable()
    table.insert(commit(1, *((b"%06d" % (i * 7919 % 100_003), b"") for i in range(100_000))))
    before = (await table.in_order(None)).runs[0]
    table.insert(commit(2, (b"x", b"")))
    after = await table.in_order(None)
    assert after.runs[1] is before, "one row more, and everything was sorted again"
    assert len(after.runs[0]) == 1


async def test_a_scan_is_not_disturbed_by_what_is_written_later() -> None:
    table = Memtable()
    table.insert(commit(1, (b"a", b"1"), (b"c", b"1")))
    seen = await table.in_order(None)
    for seq in range(2, 3000):  # so many that every buffer has moved
        table.insert(commit(seq, (b"b%d" % seq, b"x" * 50)))
    assert [list(run.keys) for run in seen.within(ALL)] == [[b"a", b"c"]]


async def test_much_is_sorted_beside_the_event_loop_and_once() -> None:
    table, runtime = Memtable(), CountingRuntime()
    table.insert(commit(1, *((b"%06d" % (i * 7919 % 100_003), b"") for i in range(2 * INLINE_ROWS))))
    seen = await asyncio.gather(*(table.in_order(runtime) for _ in range(5)))
    assert {len(each.runs[0]) for each in seen} == {2 * INLINE_ROWS}
    assert runtime.handed[0] == 2 * INLINE_ROWS
    assert not any(runtime.handed[1:]), "who came meanwhile sorted it again"


class CountingRuntime(SystemRuntime):
    """Notes how many rows there were to sort whenever a thread is asked to."""

    def __init__(self) -> None:
        super().__init__()
        self.handed: list[int] = []

    async def run(self, work: Callable[..., Any], *args: object) -> Any:
        self.handed.append(work.__self__.work)  # type: ignore[attr-defined]
        return await super().run(work, *args)


def test_rows_in_columns_are_taken_as_they_are() -> None:
    one, other = Memtable(), Memtable()
    for seq in range(1, 40):
        rows = commit(seq, (b"key", b"%d" % seq), (b"%d" % (seq % 7), b"x" * seq))
        one.insert(rows)
        other.extend(Rows.of(rows))
    assert list(other.rows().tuples()) == list(one.rows().tuples())
    for table in (one, other):
        assert [row.seq for row in table.versions(b"3", 30)] == [24, 17, 10, 3]
    assert (other.first_seq, other.last_seq, other.max_create_ts) == (1, 39, 1039)
    assert other.payload_bytes == one.payload_bytes
