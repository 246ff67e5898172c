"""The columnar reader checks every step, and the columnar writer makes what it checks."""

from __future__ import annotations

import itertools
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import CorruptData
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.field import Field
from slate_engine.format.flatbuf.reader import Source, Tables
from slate_engine.format.flatbuf.spans import Spans
from slate_engine.format.flatbuf.writer import Builder
from tests.unit.state.reference import decode_table, encode_table

u64 = st.integers(0, 2**64 - 1) | st.just(0)


def root(data: bytes) -> Tables:
    return Source(data, object="x", base=1000).root()


rows = st.lists(
    st.tuples(
        u64,
        st.integers(0, 2**32 - 1) | st.just(0),
        st.none() | st.text(max_size=9),
        st.integers(0, 2**64 - 1),
    ),
    max_size=20,
)


@given(rows)
def test_tables_of_every_shape(drawn: list[tuple[int, int, str | None, int]]) -> None:
    to = layout.Checkpoint
    builder = Builder()
    ids = builder.tables(len(drawn), {layout.Uuid.low: np.array([row[3] for row in drawn], np.uint64)})
    tables = builder.tables(
        len(drawn),
        {
            to.id: ids,
            to.manifest_id: np.array([row[0] for row in drawn], np.uint64),
            to.checkpoint_create_time_s: np.array([row[1] for row in drawn], np.uint64),
            to.name: builder.texts([row[2] for row in drawn]),
        },
    )
    data = builder.finish(builder.table({layout.ManifestV2.checkpoints: builder.vector(tables)}))
    children, offsets = root(data).children(layout.ManifestV2.checkpoints)
    assert offsets.tolist() == [0, len(drawn)]
    manifest_ids, created, expired = children.numbers(
        to.manifest_id, to.checkpoint_create_time_s, to.checkpoint_expire_time_s
    )
    lows = children.child(to.id).numbers(layout.Uuid.low)[0]
    assert list(zip(manifest_ids, created, children.strings(to.name), lows, strict=True)) == drawn
    assert expired == [0] * len(drawn)
    assert decode_table("ManifestV2", data) == {
        "checkpoints": [
            {"id": {"low": low} if low else {}}
            | ({"manifest_id": id} if id else {})
            | ({"checkpoint_create_time_s": at} if at else {})
            | ({} if name is None else {"name": name})
            for id, at, name, low in drawn
        ]
    }


@given(st.lists(st.lists(st.integers(0, 2**32 - 1), max_size=5), min_size=1, max_size=6), st.booleans())
def test_vectors_of_numbers_flatten_and_come_apart(groups: list[list[int]], omit: bool) -> None:
    to = layout.TieredCompactionSpec
    builder = Builder()
    flat = np.array([number for group in groups for number in group], np.uint64)
    offsets = np.cumsum([0, *map(len, groups)])
    vectors = builder.numbers(flat, offsets, omit_empty=omit)
    specs = builder.tables(len(groups), {to.sorted_runs: vectors})
    jobs = builder.tables(len(groups), {layout.Compaction.spec: specs})
    data = builder.finish(builder.table({layout.CompactionsV1.recent_compactions: builder.vector(jobs)}))
    tables = root(data).children(layout.CompactionsV1.recent_compactions)[0].child(layout.Compaction.spec)
    numbers, ends = tables.elements(to.sorted_runs)
    assert [numbers[a:b].tolist() for a, b in itertools.pairwise(ends.tolist())] == groups
    assert tables.has(to.sorted_runs).tolist() == [bool(group) or not omit for group in groups]


def test_signed_numbers_and_absent_tables() -> None:
    for number in (-(2**63), -1, 0, 1, 2**63 - 1):
        data = encode_table("ManifestV2", {"last_l0_clock_tick": number, "ssts": []})
        tables = root(data)
        assert tables.numbers(layout.ManifestV2.last_l0_clock_tick, layout.ManifestV2.writer_epoch) == [[number], [0]]
        absent = tables.child(layout.ManifestV2.last_compacted_l0_sst_view_id)
        assert absent.at.tolist() == [0]
        assert absent.numbers(layout.Ulid.high) == [[0]]
        assert absent.child(layout.BytesRange.start_bound).at.tolist() == [0]
    for number in (-128, -1, 127):
        bound = root(encode_table("BytesBound", {"bound_type": number}))
        assert bound.numbers(layout.BytesBound.bound_type) == [[number]]


def test_equal_vtables_are_written_once() -> None:
    def size(n: int) -> int:
        builder = Builder()
        ids = builder.tables(n, {layout.Ulid.high: np.full(n, 7), layout.Ulid.low: np.full(n, 9)})
        return len(builder.finish(builder.table({layout.ExternalDb.sst_ids: builder.vector(ids)})))

    assert size(1001) - size(1) == 1000 * (24 + 4)


def word(data: bytes, at: int, value: int, width: int = 4) -> bytes:
    return data[:at] + (value % 2 ** (8 * width)).to_bytes(width, "little") + data[at + width :]


class TestChecks:
    """One small buffer, one thing wrong with it at a time."""

    data = encode_table("Checkpoint", {"id": {"high": 1, "low": 2}, "manifest_id": 3, "name": "four"})
    table = int.from_bytes(data[:4], "little")
    vtable = table - int.from_bytes(data[table : table + 4], "little", signed=True)

    def place(self, field: Field) -> int:
        entry = self.vtable + 4 + 2 * field.slot
        return self.table + int.from_bytes(self.data[entry : entry + 2], "little")

    def refuse(self, data: bytes, read: Callable[[Tables], object], problem: str, at: int | None = None) -> None:
        with pytest.raises(CorruptData, match=problem) as caught:
            read(root(data))
        assert caught.value.object == "x"
        if at is not None:
            assert caught.value.offset == 1000 + at

    def test_it_is_sound(self) -> None:
        assert root(self.data).strings(layout.Checkpoint.name) == ["four"]

    def test_root(self) -> None:
        self.refuse(self.data[:7], len, "the buffer ends", 7)
        self.refuse(b"", len, "the buffer ends", 0)
        self.refuse(word(self.data, 0, len(self.data)), len, "points outside", 0)
        self.refuse(word(self.data, 0, 0), len, "points outside", 0)
        self.refuse(word(self.data, 0, 2**32 - 1), len, "points outside", 0)
        self.refuse(word(self.data, 0, self.table + 2), len, "not aligned")

    def test_vtable(self) -> None:
        for wrong in (self.table + 4, self.table - len(self.data), 2**31, -(2**31), 2**31 - 1):
            self.refuse(word(self.data, self.table, wrong), len, "vtable", self.table)
        for length in (3, 2, 0, 5, 2**16 - 2, 2**16 - 1):
            self.refuse(word(self.data, self.vtable, length, 2), len, "vtable")

    def test_scalar(self) -> None:
        entry = self.vtable + 4 + 2 * layout.Checkpoint.manifest_id.slot

        def read(tables: Tables) -> object:
            return tables.u64(layout.Checkpoint.manifest_id)

        self.refuse(word(self.data, entry, 2**15, 2), read, r"Checkpoint\.manifest_id: the buffer ends")
        place = self.place(layout.Checkpoint.manifest_id) - self.table
        self.refuse(word(self.data, entry, place + 4, 2), read, "not aligned")

    def test_required(self) -> None:
        entry = self.vtable + 4 + 2 * layout.Checkpoint.id.slot
        data = word(self.data, entry, 0, 2)
        self.refuse(data, lambda tables: tables.child(layout.Checkpoint.id), "id: a required field", self.table)
        assert root(data).strings(layout.Checkpoint.name) == ["four"]

    def test_offsets(self) -> None:
        at = self.place(layout.Checkpoint.id)
        for wrong in (0, len(self.data) - at, 2**32 - 1, len(self.data) - at - 3):
            self.refuse(
                word(self.data, at, wrong), lambda tables: tables.child(layout.Checkpoint.id), "points outside", at
            )
        self.refuse(word(self.data, at, 2), lambda tables: tables.child(layout.Checkpoint.id), "not aligned")

    def test_strings(self) -> None:
        at = self.place(layout.Checkpoint.name)
        at += int.from_bytes(self.data[at : at + 4], "little")

        def read(tables: Tables) -> object:
            return tables.strings(layout.Checkpoint.name)

        self.refuse(word(self.data, at, 2**31), read, "reaches past the end", at)
        self.refuse(word(self.data, at, len(self.data) - at - 4), read, "NUL")
        self.refuse(word(self.data, at, 3), read, "NUL", at + 7)
        self.refuse(word(self.data, at + 4, 0x80, 1), read, "UTF-8", at + 4)

    def test_elements(self) -> None:
        data = encode_table("CompactionsV1", {"recent_compactions": [{"id": {}, "spec_type": 1, "spec": {}}]})
        at = data.index((1).to_bytes(4, "little"), int.from_bytes(data[:4], "little")) + 4
        field = layout.CompactionsV1.recent_compactions
        for wrong in (0, len(data), 2**32 - 1):
            self.refuse(word(data, at, wrong), lambda tables: tables.children(field), "points outside", at)
        self.refuse(word(data, at, 6), lambda tables: tables.children(field), "not aligned")


class TestBombs:
    """Small files that would be huge if every offset were followed: refused, in time and memory of the file's own size."""

    def refuse(self, data: bytes, read: Callable[[Tables], object]) -> None:
        with pytest.raises(CorruptData, match="share"):
            read(root(data))  # compiles what is not compiled yet
        tracemalloc.start()
        started = time.perf_counter()
        with pytest.raises(CorruptData, match="share"):
            read(root(data))
        elapsed = time.perf_counter() - started
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 10 * len(data) + 100_000
        assert elapsed < 1

    def test_runs_that_share_their_views(self) -> None:
        to = layout.SortedRunV2
        builder = Builder()
        views = builder.tables(1, {layout.CompactedSsTableView.id: 0})
        vector = builder.vector(np.repeat(views, 20_000))
        runs = builder.tables(20_000, {to.ssts: np.full(20_000, vector)})
        data = builder.finish(builder.table({layout.ManifestV2.compacted: builder.vector(runs)}))
        self.refuse(data, lambda tables: tables.children(layout.ManifestV2.compacted)[0].children(to.ssts))

    def test_one_table_in_every_place_of_a_vector(self) -> None:
        builder = Builder()
        table = builder.tables(1, {layout.Checkpoint.manifest_id: 1})
        data = builder.finish(builder.table({layout.ManifestV2.checkpoints: builder.vector(np.repeat(table, 100_000))}))
        self.refuse(data, lambda tables: tables.children(layout.ManifestV2.checkpoints))

    def test_tables_that_share_a_long_text(self) -> None:
        builder = Builder()
        (text,) = builder.texts(["x" * 100_000])
        tables = builder.tables(10_000, {layout.Checkpoint.name: np.full(10_000, text)})
        data = builder.finish(builder.table({layout.ManifestV2.checkpoints: builder.vector(tables)}))
        field = layout.Checkpoint.name
        self.refuse(data, lambda tables: tables.children(layout.ManifestV2.checkpoints)[0].strings(field))

    def test_tables_that_share_a_long_key(self) -> None:
        builder = Builder()
        (key,) = builder.strings(Spans.of([b"x" * 100_000]), terminated=False)
        tables = builder.tables(10_000, {layout.BlockMeta.first_key: np.full(10_000, key)})
        data = builder.finish(builder.table({layout.SsTableIndex.block_meta: builder.vector(tables)}))
        field = layout.BlockMeta.first_key
        self.refuse(data, lambda tables: tables.children(layout.SsTableIndex.block_meta)[0].spans(field))
