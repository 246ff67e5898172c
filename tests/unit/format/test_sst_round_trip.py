"""Whatever is written is read back, however it was cut into blocks, parcelled out and compressed."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import InvalidError
from slate_engine.format.checksum import SIZE
from slate_engine.format.codec import decompress
from slate_engine.format.columns import HAS_CREATE, MERGE, TOMBSTONE, Rows
from slate_engine.format.filters import choose
from slate_engine.format.sst import open_sst
from slate_engine.format.sst_build import SstBuilder, SstOptions, build_sst
from slate_engine.format.sst_meta import Codec, FilterFormat, SstType
from slate_engine.format.wal import build_wal_sst, read_wal
from tests.unit.format import drawn
from tests.unit.format.plain import Row, blocks_v2


@given(drawn.rows(), drawn.options)
def test_an_sst_says_what_it_was_built_from(rows: list[Row], options: SstOptions) -> None:
    built = build_sst(Rows.of(rows), options)
    data = built.tobytes()
    assert built.size == len(data)
    sst = open_sst(data)
    assert (sst.info, sst.version) == (built.info, 2)
    assert list(sst.rows().tuples()) == rows
    assert (sst.info.first_entry, sst.info.last_entry) == (rows[0][0], rows[-1][0])
    assert (sst.info.sst_type, sst.info.filter_format) == (SstType.COMPACTED, FilterFormat.COMPOSITE)

    blocks = sst.index()
    payloads = [
        bytes(decompress(options.codec, sst.data[start : end - SIZE], object="", offset=0))
        for start, end in zip(blocks.starts, blocks.ends, strict=True)
    ]
    assert payloads == list(blocks_v2(rows, options.block_size))
    check_separators(list(blocks.first_keys), [list(sst.rows(i, i + 1).keys) for i in range(len(blocks))])

    assert len(sst.filters()) == (len(options.filters) if len(rows) >= options.min_filter_keys else 0)
    for policy, bloom in choose(sst.filters(), options.filters):
        assert policy.may_have_keys(bloom, sst.rows().keys).all()

    stats = sst.stats()
    assert stats is not None
    kinds = [flags & (TOMBSTONE | MERGE) for _, _, _, flags, _, _ in rows]
    assert (stats.num_puts, stats.num_deletes, stats.num_merges) == tuple(map(kinds.count, (0, TOMBSTONE, MERGE)))
    assert stats.raw_key_size == sum(len(key) for key, *_ in rows)
    assert stats.raw_val_size == sum(len(value) for _, value, *_ in rows)
    assert np.sum(stats.block_stats, axis=0).tolist() == [len(sst.rows(i, i + 1)) for i in range(len(blocks))]


def check_separators(separators: list[bytes], keys: list[list[bytes]]) -> None:
    assert separators[0] == b""
    for i in range(1, len(separators)):
        before, after, separator = keys[i - 1][-1], keys[i][0], separators[i]
        assert after.startswith(separator)
        assert before < separator or before == separator == after
        assert before == after or separator[:-1] <= before, "a shorter one would do"


@given(drawn.rows(), drawn.options, st.lists(st.integers(0, 60), max_size=6))
def test_parcels_and_chunks_make_no_difference(rows: list[Row], options: SstOptions, cuts: list[int]) -> None:
    columns = Rows.of(rows)
    whole = build_sst(columns, options)
    builder, chunks = SstBuilder(options), []
    edges = [0, *sorted(min(cut, len(rows)) for cut in cuts), len(rows)]
    for start, stop in itertools.pairwise(edges):
        builder.append(columns.slice(start, stop))
        chunks += builder.take()
        assert builder.size == sum(map(len, chunks))
        assert builder.rows == stop
    built = builder.finish()
    assert b"".join([*chunks, *built.chunks]) == whole.tobytes()
    assert (built.info, built.size) == (whole.info, whole.size)


@given(drawn.rows(), st.sampled_from(list(Codec)), st.randoms(use_true_random=False))
def test_a_wal_keeps_the_order_of_commits(rows: list[Row], codec: Codec, chance: random.Random) -> None:
    chance.shuffle(rows)
    seq = 0
    commits: list[Row] = []
    for key, value, _, flags, create_ts, expire_ts in rows:
        seq += chance.choice([0, 1, 1, 5])
        commits.append((key, value, seq, flags, create_ts, expire_ts))
    built = build_wal_sst(Rows.of(commits), codec)
    sst = open_sst(built.tobytes())
    assert list(read_wal(built.tobytes()).tuples()) == commits
    assert (sst.info.sst_type, sst.info.codec) == (SstType.WAL, codec)
    assert sst.info.first_entry == commits[0][2].to_bytes(8, "big")
    assert sst.info.last_entry is None
    assert (sst.info.filter_len, sst.info.stats_len, sst.info.stats_offset) == (0, 0, 0)
    blocks = sst.index()
    firsts = [int(sst.rows(i, i + 1).seq[0]).to_bytes(8, "big") for i in range(len(blocks))]
    assert list(blocks.first_keys) == firsts
    raw = [
        bytes(decompress(codec, sst.data[s : e - SIZE], object="", offset=0))
        for s, e in zip(blocks.starts, blocks.ends, strict=True)
    ]
    assert raw == list(blocks_v2(commits, 65_535))


@pytest.mark.parametrize("codec", list(Codec))
def test_the_largest_keys_and_values(codec: Codec) -> None:
    chance = random.Random(5)
    rows: list[Row] = [
        (b"a" * 100 * 1024, b"", 1, TOMBSTONE, 0, 0),
        (b"a" * 100 * 1024 + b"b", chance.randbytes(8 << 20), 9, HAS_CREATE, 5, 0),
        (b"a" * 100 * 1024 + b"b", bytes(8 << 20), 8, 0, 0, 0),
        (b"b", b"small", 7, 0, 0, 0),
    ]
    for options in (SstOptions(codec=codec, min_filter_keys=0), SstOptions(block_size=65_536, codec=codec)):
        assert list(open_sst(build_sst(Rows.of(rows), options).tobytes()).rows().tuples()) == rows


def test_many_rows_come_in_bounded_pieces() -> None:
    """A builder holds the block under construction and what nobody took, not the file."""
    chance = np.random.default_rng(2)
    builder, taken, largest = SstBuilder(SstOptions(block_size=1024)), [], 0
    rows = []
    for batch in range(20):
        part = [(b"%08d" % (batch * 5000 + i), chance.bytes(90), 1, 0, 0, 0) for i in range(5000)]
        builder.append(Rows.of(part))
        chunks = builder.take()
        largest = max(largest, sum(map(len, chunks)))
        taken += chunks
        rows += part
    built = builder.finish()
    assert largest < 1 << 20
    assert list(open_sst(b"".join([*taken, *built.chunks])).rows().tuples()) == rows


def test_an_sst_of_nothing_is_refused() -> None:
    for empty in (build_sst, build_wal_sst):
        with pytest.raises(InvalidError, match="at least one row"):
            empty(Rows.of([]))
