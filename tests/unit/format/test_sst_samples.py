"""Every SST that SlateDB wrote for the sample databases is read, and rebuilt from its rows as it was."""

from __future__ import annotations

import numpy as np
import pytest

from slate_engine.format.checksum import SIZE
from slate_engine.format.codec import decompress
from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.format.filters import choose
from slate_engine.format.sst import Sst
from slate_engine.format.sst_meta import Codec
from slate_engine.format.wal import FENCE, read_wal
from tests.unit.format.samples import ALL, COMPACTED, FENCES, WAL, Sample, by_name


def raw_blocks(sst: Sst) -> list[bytes]:
    blocks = sst.index()
    return [
        bytes(decompress(sst.info.codec, sst.data[start : end - SIZE], object="", offset=start))
        for start, end in zip(blocks.starts.tolist(), blocks.ends.tolist(), strict=True)
    ]


def test_the_sample_is_all_there() -> None:
    assert (len(COMPACTED), len(WAL), len(FENCES)) == (48, 48, 13)
    assert sum(len(sample.open().rows()) for sample in ALL) == 6451
    assert sum(len(sample.open().index()) for sample in ALL) == 205
    assert sum(len(sample.open().filters()) for sample in ALL) == 44
    assert {sample.open().info.codec for sample in ALL} == set(Codec)


@pytest.mark.parametrize("sample", ALL, ids=by_name)
def test_blocks_come_out_as_they_went_in(sample: Sample) -> None:
    before, rows = sample.open(), sample.open().rows()
    built = sample.rebuilt(rows)
    after = Sst(memoryview(built.tobytes()), built.info, built.version, "rebuilt")
    assert raw_blocks(after) == raw_blocks(before)
    if before.info.codec in (
        Codec.NONE,
        Codec.SNAPPY,
        Codec.ZSTD,
    ):  # other encoders of lz4 and zlib choose other matches
        assert after.data[: built.info.index_offset] == before.data[: before.info.index_offset]
    if before.info.codec is Codec.NONE:
        # FlatBuffers can be laid out in more than one way; ours never take more room.
        assert before.info.index_len - 16 <= built.info.index_len <= before.info.index_len
        assert before.info.stats_len - 16 <= built.info.stats_len <= before.info.stats_len
        assert len(before.data) - 64 <= built.size <= len(before.data)


@pytest.mark.parametrize("sample", COMPACTED, ids=by_name)
def test_filters_separators_and_stats_are_recomputed_to_the_bit(sample: Sample) -> None:
    before, rows = sample.open(), sample.open().rows()
    built = sample.rebuilt(rows)
    after = Sst(memoryview(built.tobytes()), built.info, built.version, "rebuilt")
    assert after.filters() == before.filters()
    assert list(after.index().first_keys) == list(before.index().first_keys)
    assert (built.info.first_entry, built.info.last_entry) == (before.info.first_entry, before.info.last_entry)
    theirs, ours, again = before.stats(), built.stats, after.stats()
    assert theirs is not None
    assert again is not None
    for stats in (ours, again):
        for name in ("num_puts", "num_deletes", "num_merges", "raw_key_size", "raw_val_size"):
            assert getattr(stats, name) == getattr(theirs, name)
        for kind, expected in zip(stats.block_stats, theirs.block_stats, strict=True):
            assert kind.tolist() == expected.tolist()
    deleted, merged = int((rows.flags & TOMBSTONE > 0).sum()), int((rows.flags & MERGE > 0).sum())
    assert (theirs.num_deletes, theirs.num_merges) == (deleted, merged)


@pytest.mark.parametrize("sample", [s for s in COMPACTED if s.open().info.filter_len], ids=by_name)
def test_filters_answer_yes_for_what_is_there(sample: Sample) -> None:
    rows, options = sample.open().rows(), sample.options()
    ((policy, bloom),) = choose(sample.open().filters(), options.filters)
    assert policy.may_have_keys(bloom, rows.keys).all()
    assert all(policy.may_have_prefix(bloom, key[:3]) for key in rows.keys)


@pytest.mark.parametrize("sample", WAL, ids=by_name)
def test_wal_rows_come_in_commit_order(sample: Sample) -> None:
    sst, rows = sample.open(), read_wal(sample.data, object=sample.name)
    assert list(rows.tuples()) == list(sst.rows().tuples())
    assert (np.diff(rows.seq.astype(np.int64)) >= 0).all()
    assert sst.info.first_entry == int(rows.seq[0]).to_bytes(8, "big")
    assert sst.info.last_entry is None
    assert sst.stats() is None
    assert sst.filters() == []
    built = sample.rebuilt(rows)
    after = Sst(memoryview(built.tobytes()), built.info, built.version, "rebuilt")
    assert list(after.index().first_keys) == list(sst.index().first_keys)


def test_a_fence_is_a_wal_file_without_rows() -> None:
    assert len(read_wal(FENCE)) == 0
    assert all(len(read_wal(path.read_bytes())) == 0 for path in FENCES)


@pytest.mark.parametrize("sample", [s for s in ALL if s.open().info.codec is Codec.NONE][:8], ids=by_name)
def test_keys_can_be_read_without_values(sample: Sample) -> None:
    whole, bare = sample.open().rows(), sample.open().rows(values=False)
    assert list(bare.keys) == list(whole.keys)
    assert bare.seq.tolist() == whole.seq.tolist()
    assert bare.flags.tolist() == whole.flags.tolist()
    assert set(bare.values) == {b""}
    assert bare.values.data.size == 0
