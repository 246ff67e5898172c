"""Which keys go to which task."""

from __future__ import annotations

import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.format.columns import Bytes
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.format.sst_meta import Codec, FilterFormat, SstInfo, SstType
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.table import Table
from slate_engine.runtime import SystemRuntime
from slate_engine.spark import planning
from slate_engine.spark.planning import POINT_BYTES, Share, Weights, plan, thinned, weigh
from slate_engine.spark.ranges import EVERYTHING
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import SortedRun, Tree, Trees
from slate_engine.state.views import SstView, Views
from tests.spark.databases import Story

MB = 1 << 20


def key(i: int) -> bytes:
    return b"%08d" % i


def weights(step: int, size: int, count: int = 1000) -> Weights:
    return Weights(Bytes.of(key(i) for i in range(0, count * step, step)), np.full(count, size, np.int64))


def shares_of(sources: list[Weights], target: int, wanted: tuple[KeyRange, ...] = EVERYTHING) -> list[Share]:
    return plan(sources, wanted, target)


def check_cover(shares: list[Share], wanted: tuple[KeyRange, ...], keys: list[bytes]) -> None:
    """Every wanted key is in one share, and no other key in any."""
    ranges = [each for share in shares for each in share.ranges]
    for each in keys:
        assert sum(each in part for part in ranges) == any(each in part for part in wanted), each


def test_shares_are_of_equal_bytes() -> None:
    shares = shares_of([weights(1, MB), weights(3, MB, 333)], 100 * MB)
    assert len(shares) == 14
    check_cover(shares, EVERYTHING, [key(i) for i in range(1010)])
    held = [
        sum(MB for i in range(1000) if key(i) in part) + sum(MB for i in range(0, 999, 3) if key(i) in part)
        for (part,) in (share.ranges for share in shares)
    ]
    assert max(held) <= 102 * MB
    assert min(held[:-1]) >= 98 * MB


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 99), st.integers(1, 50)), max_size=30), max_size=4),
    st.lists(st.integers(0, 100), max_size=8, unique=True),
    st.integers(1, 300),
)
def test_any_weights_any_ranges(tables: list[list[tuple[int, int]]], edges: list[int], target: int) -> None:
    sources = []
    for table in tables:
        entries = sorted(dict(table).items())
        sizes = np.array([size for _, size in entries], np.int64)
        sources.append(Weights(Bytes.of(key(i) for i, _ in entries), sizes))
    edges = sorted(edges)
    wanted = (
        tuple(KeyRange.half_open(key(a), key(b)) for a, b in zip(edges[::2], edges[1::2], strict=False)) or EVERYTHING
    )
    check_cover(plan(sources, wanted, target), wanted, [key(i) for i in range(101)])


def test_a_narrow_range_is_one_share_and_points_are_packed() -> None:
    sources = [weights(1, MB)]
    (share,) = shares_of(sources, 100 * MB, (KeyRange.half_open(key(500), key(502)),))
    assert share.bytes <= 4 * MB
    points = tuple(KeyRange.closed(key(i), key(i)) for i in range(1000))
    shares = shares_of(sources, 100 * POINT_BYTES, points)
    assert [len(share.ranges) for share in shares] == [100] * 10


def test_nothing_wanted_is_no_share() -> None:
    assert plan([weights(1, MB)], (), MB) == []


async def test_a_database_without_ssts_is_one_share() -> None:
    """Its rows may be in the log."""
    weights = await weigh(many_ssts(0, MB), EVERYTHING, MB)
    assert [share.ranges for share in plan(weights, EVERYTHING, MB)] == [EVERYTHING]


def test_a_thinned_index_has_the_same_bytes() -> None:
    fine = weights(1, 4096, 10_000)
    coarse = thinned(fine, MB)
    assert len(coarse.sizes) == 40
    assert coarse.sizes.sum() == fine.sizes.sum()
    assert coarse.keys[0] == fine.keys[0]


def many_ssts(count: int, size: int) -> Snapshot:
    runtime = SystemRuntime()

    def view(i: int) -> SstView:
        info = SstInfo(
            first_entry=key(i),
            last_entry=key(i) + b"~",
            index_offset=size,
            index_len=1000,
            filter_offset=0,
            filter_len=0,
            codec=Codec.NONE,
            sst_type=SstType.COMPACTED,
            stats_offset=0,
            stats_len=0,
            filter_format=FilterFormat.LEGACY,
        )
        handle = SstHandle(Ulid.new(runtime), info, 2)
        return SstView(handle.id, handle)

    def no_table(view: SstView) -> Table:
        raise AssertionError("no index is worth a request here")

    run = SortedRun(0, Views.of(view(i) for i in range(count)))
    return Snapshot((), Levels(Trees(Tree(runs=(run,)))), no_table)


async def test_ten_thousand_ssts_take_less_than_a_second() -> None:
    snapshot = many_ssts(10_000, 30 * MB)
    began = time.process_time()
    shares = plan(await weigh(snapshot, EVERYTHING, 128 * MB), EVERYTHING, 128 * MB)
    assert time.process_time() - began < 1.0
    assert 2000 <= len(shares) <= 2500


class Indexed:
    """A table of equal blocks of a megabyte, of which only the index can be read."""

    opened = 0

    def __init__(self, view: SstView) -> None:
        Indexed.opened += 1
        self._first = view.sst.info.first_entry or b""
        self._size = view.sst.info.index_offset

    async def blocks(self) -> object:
        starts = np.arange(0, self._size, MB)
        first = self._first

        class Blocks:
            first_keys = Bytes.of([b"", *(first + b"%04d" % i for i in range(1, len(starts)))])

        Blocks.starts, Blocks.ends = starts, starts + MB  # type: ignore[attr-defined]
        return Blocks


def bytes_of(share: Share, ssts: int, size: int) -> int:
    """What a share really holds of such tables."""
    (wanted,) = share.ranges
    first = int(wanted.start.key[:8]) if wanted.start.bounded else 0
    last = int(wanted.end.key[:8]) if wanted.end.bounded else ssts - 1
    keys = (key(i) + (b"%04d" % block if block else b"") for i in range(first, last + 1) for block in range(size // MB))
    return sum(MB for each in keys if each in wanted)


async def planned(ssts: int, size: int) -> list[Share]:
    snapshot = many_ssts(ssts, size)
    Indexed.opened = 0
    object.__setattr__(snapshot, "open_table", Indexed)
    return plan(await weigh(snapshot, EVERYTHING, 128 * MB), EVERYTHING, 128 * MB)


async def test_shares_are_about_as_large_as_was_asked_however_many_large_ssts_there_are() -> None:
    for size in (60 * MB, 100 * MB, 256 * MB, 500 * MB):
        shares = await planned(300, size)
        assert Indexed.opened == (0 if size == 60 * MB else 300)
        held = [bytes_of(share, 300, size) for share in shares]
        assert sum(held) == 300 * size
        assert max(held) <= 1.5 * 128 * MB


async def test_the_largest_are_looked_into_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "MOST_INDEXES", 30)
    shares = await planned(200, 256 * MB)
    assert Indexed.opened == 30
    assert len(shares) >= 200
    monkeypatch.setattr(planning, "MOST_INDEX_BYTES", 10_500)
    await planned(200, 256 * MB)
    assert Indexed.opened == 10


async def test_single_keys_need_no_index() -> None:
    snapshot = many_ssts(10, 256 * MB)  # which has no tables
    points = tuple(KeyRange.closed(key(i), key(i)) for i in range(5))
    assert len(plan(await weigh(snapshot, points, 128 * MB), points, 128 * MB)) == 1
    both = (*points, KeyRange.half_open(key(7), key(8)))
    object.__setattr__(snapshot, "open_table", Indexed)
    Indexed.opened = 0
    plan(await weigh(snapshot, both, 128 * MB), both, 128 * MB)
    assert Indexed.opened == 1


async def test_a_large_sst_is_cut_inside(tmp_path: Path) -> None:
    story = Story(tmp_path)
    await story.write({key(i): b"x" * 1000 for i in range(3000)})
    files = story.files()
    snapshot = await files.latest()
    target = 512 << 10
    shares = plan(await weigh(snapshot, EVERYTHING, target), EVERYTHING, target)
    counts = [sum(key(i) in share.ranges[0] for i in range(3000)) for share in shares]
    assert sum(counts) == 3000
    assert len(counts) == 6
    assert max(counts) < 1.15 * 3000 / 6
    assert shares[0].ranges[0].start == ALL.start
    for (before,), (after,) in pairwise(share.ranges for share in shares):
        assert before.end.key == after.start.key
