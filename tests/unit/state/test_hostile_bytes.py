"""Damaged manifests, compactions and SST meta data: a typed error or a sound value, never anything else.

Mutations are those of ``tests.hostile``, and some that know FlatBuffers: offsets that lead elsewhere in the buffer, vtables
that lie about their tables. Seeds are fixed; the long suite draws many more.
"""

from __future__ import annotations

import contextlib
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from uuid import UUID

import numpy as np
import pytest

from slate_engine.errors import CorruptData, DataError, InvalidError, UnsupportedFormat
from slate_engine.format.columns import Bytes
from slate_engine.format.flatbuf import layout
from slate_engine.format.flatbuf.writer import Builder
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.key_range import KeyRange
from slate_engine.format.sst_meta import (
    BlockIndex,
    BlockStats,
    SstStats,
    decode_index,
    decode_info,
    decode_stats,
    encode_index,
    encode_info,
    encode_stats,
)
from slate_engine.state.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    Context,
    DrainSpec,
    Subcompaction,
    TieredSpec,
    Worker,
)
from slate_engine.state.compactions_read import decode_compactions
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.envelope import PREFIX
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.manifest_read import decode_manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import Ssts
from slate_engine.state.tracker import SequenceTracker
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.views import Views
from tests.hostile.mutations import ALL, Mutation, mutate
from tests.share import share_of
from tests.unit.state.reference import encode_table
from tests.unit.state.samples import COMPACTIONS, MANIFESTS, STORE
from tests.unit.state.test_views_and_trees import sst, view
from tests.unit.state.wheel import admin, our_manifest, wheels_manifest
from tests.unit.state.wire import manifest_v1

Decode = Callable[[bytes], object]
OBJECT = "db/some/object"


def retarget(chance: random.Random, data: bytes) -> bytes:
    """An offset that leads to some other place, where something may well stand."""
    at = 2 + 4 * chance.randrange(max(len(data) // 4 - 1, 1))
    target = 2 + 4 * chance.randrange(max(len(data) // 4, 1))
    return data[:at] + ((target - at) % 2**32).to_bytes(4, "little") + data[at + 4 :]


def lie(chance: random.Random, data: bytes) -> bytes:
    """A small number in a place of two bytes: mostly in a vtable or a length."""
    at = 2 + 2 * chance.randrange(max(len(data) // 2 - 1, 1))
    return data[:at] + chance.choice([0, 2, 4, 5, 8, 12, 60, 2**16 - 1]).to_bytes(2, "little") + data[at + 2 :]


KINDS: list[Mutation] = [*ALL, retarget, retarget, retarget, lie, lie]


def rich_manifest() -> Manifest:
    """Everything that a manifest can hold."""
    cut = KeyRange.half_open(b"b", b"y")
    tree = Tree(
        Views.of([view(9, visible=cut), view(8, b"c", None), view(7)]),
        (
            SortedRun(4, Views.of([view(i, b"%02d" % i, b"%02d" % (i + 1)) for i in range(20, 30)])),
            SortedRun(2, Views.of([view(40, b"a", b"k", cut), view(41, b"k", b"p", cut)])),
        ),
        Ulid.of(5, 5),
    )
    segment = Tree(Views.of([view(60, b"s1", b"s2")]), (SortedRun(3, Views.of([view(61, b"s1", b"s1")])),))
    return Manifest(
        writer_epoch=3,
        compactor_epoch=2,
        replay_after_wal_id=6,
        wal_id_last_seen=9,
        trees=Trees(tree, (Segment(b"s", segment), Segment(b"t", Tree()))),
        last_l0_clock_tick=1_700_000_000_000,
        last_l0_seq=77,
        recent_snapshot_min_seq=70,
        checkpoints=tuple(Checkpoint(UUID(int=i), i, 90 + i, 80, f"name {i}") for i in range(1, 5)),
        external_dbs=(ExternalDb("parent", UUID(int=9), UUID(int=8), Ids.of([sst(7).id, sst(99).id])),),
        sequence_tracker=SequenceTracker.of([(i * i, 60 * i) for i in range(20)]),
        segment_extractor_name="by prefix",
    )


def rich_compactions() -> Compactions:
    id, outputs = Ulid.of(1, 1), Ssts.of([sst(5), sst(6)])
    parts = (Subcompaction(KeyRange.half_open(None, b"m"), outputs), Subcompaction(KeyRange.half_open(b"m", None)))
    return Compactions(
        4,
        (
            Compaction(id, TieredSpec((Ulid(7), Ulid(8)), (3, 2), 2), CompactionStatus.COMPACTED, outputs),
            Compaction(Ulid.of(2, 1), DrainSpec(b"seg", (Ulid(9),), (1,)), CompactionStatus.FAILED),
            Compaction(
                Ulid.of(3, 1),
                TieredSpec((Ulid(1),), (), 9, b"t"),
                CompactionStatus.RUNNING,
                worker=Worker("me", 55),
                context=Context(parts, 44),
            ),
        ),
    )


def manifests() -> list[tuple[bytes, Decode]]:
    rich = rich_manifest()
    version_1 = replace(rich, trees=Trees(rich.root), segment_extractor_name=None, wal_object_store_uri="uri")
    files = [
        *(file.read_bytes() for file in MANIFESTS[::4]),
        *([encode_manifest(rich)] * 10),
        *([b"\x00\x01" + encode_table("ManifestV1", manifest_v1(version_1))] * 5),
    ]
    return [(data, lambda data: decode_manifest(data, object=OBJECT)) for data in files]


def compactions() -> list[tuple[bytes, Decode]]:
    files = [*(file.read_bytes() for file in COMPACTIONS[::4]), *([encode_compactions(rich_compactions())] * 5)]
    return [(data, lambda data: decode_compactions(data, object=OBJECT)) for data in files]


def sst_meta() -> list[tuple[bytes, Decode]]:
    index = BlockIndex(np.arange(9, dtype=np.uint64), Bytes.of(b"key %d" % i for i in range(9)))
    counts = np.arange(9, dtype=np.uint16)
    stats = SstStats(1, 2, 3, 4, 5, BlockStats(counts, counts, counts))
    sample = next(STORE.glob("main/compacted/*.sst")).read_bytes()
    footer = sample[int.from_bytes(sample[-10:-2], "big") : -14]
    return [
        (encode_index(index), lambda data: decode_index(data, object=OBJECT, base=0)),
        (encode_stats(stats), lambda data: decode_stats(data, object=OBJECT, base=0)),
        (encode_info(sst(1).info), lambda data: decode_info(data, object=OBJECT, base=0)),
        (footer, lambda data: decode_info(data, object=OBJECT, base=0)),
    ]


def attempt(decode: Decode, data: bytes) -> object:
    """What it decodes to, or the error; any other error than the two that are meant for this is the test's failure."""
    try:
        return decode(data)
    except (CorruptData, UnsupportedFormat) as error:
        return error


def torture(files: list[tuple[bytes, Decode]], seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    refused = 0
    for _ in range(rounds):
        data, decode = chance.choice(files)
        for _ in range(chance.randint(1, 3)):
            data = mutate(chance, data, KINDS) or b"\x00"
        started = time.perf_counter()
        value = attempt(decode, data)
        assert time.perf_counter() - started < 5
        if isinstance(value, DataError):
            refused += 1
            assert OBJECT in value.message
            assert not isinstance(value, CorruptData) or 0 <= value.offset <= len(data)
        else:
            check_value(value)
    assert refused > rounds // 4, "most damage to these formats can be seen"


def check_value(value: object) -> None:
    """What was accepted can be used: looked through, and written or refused."""
    repr(value)
    try:
        if isinstance(value, Manifest):
            assert all(each.key_range is not None for tree in value.trees for views in tree.views() for each in views)
            assert decode_manifest(encode_manifest(value), object=OBJECT).ssts == value.ssts
        elif isinstance(value, Compactions):
            encode_compactions(value)
    except InvalidError:
        pass  # foreign numbers may break rules that only a writer must keep


@pytest.mark.parametrize("files", [manifests, compactions, sst_meta])
def test_a_few_hundred_of_each(files: Callable[[], list[tuple[bytes, Decode]]]) -> None:
    torture(files(), seed=1, rounds=400)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(share_of(10)))
@pytest.mark.parametrize("files", [manifests, compactions, sst_meta])
def test_many_thousands(files: Callable[[], list[tuple[bytes, Decode]]], seed: int) -> None:
    torture(files(), seed=1000 + seed, rounds=1500)


@pytest.mark.parametrize("make", [encode_manifest, encode_compactions])
def test_every_single_cut(make: Callable[[object], bytes]) -> None:
    """A file without its end never reads as something else."""
    value, decode = (
        (rich_manifest(), decode_manifest) if make is encode_manifest else (rich_compactions(), decode_compactions)
    )
    data = make(value)
    for end in range(len(data)):
        with pytest.raises((CorruptData, UnsupportedFormat)):
            decode(data[:end], object=OBJECT)


def test_every_flip_of_a_byte_in_a_small_manifest() -> None:
    data = encode_manifest(Manifest(trees=Trees(Tree(Views.of([view(1)])))))
    for at in range(len(data)):
        for value in {0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1}:
            with contextlib.suppress(CorruptData, UnsupportedFormat):
                check_value(decode_manifest(data[:at] + bytes([value]) + data[at + 1 :], object=OBJECT))


def peak_of(decode: Callable[[], object]) -> tuple[int, float]:
    """The most memory that was in use at once, and the time."""
    tracemalloc.start()
    started = time.perf_counter()
    with contextlib.suppress(CorruptData, UnsupportedFormat):
        decode()
    elapsed = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak, elapsed


def bomb_of_views(copies: int, key_size: int) -> bytes:
    """Very many views of one SST whose first and last keys are long and equal."""
    manifest = Manifest(trees=Trees(Tree(Views.of([view(1, b"k" * key_size, b"k" * key_size)]))))
    builder = Builder()
    key = builder.strings(manifest.ssts.first, terminated=False)
    last = builder.strings(manifest.ssts.last, terminated=False)
    ulid = builder.tables(1, {layout.Ulid.high: 1})
    info = builder.tables(1, {layout.SsTableInfo.first_entry: key, layout.SsTableInfo.last_entry: last})
    ssts = builder.tables(1, {layout.CompactedSsTableV2.id: ulid, layout.CompactedSsTableV2.info: info})
    of = layout.CompactedSsTableView
    views = builder.tables(copies, {of.id: np.repeat(ulid, copies), of.sst_id: np.repeat(ulid, copies)})
    runs = builder.tables(1, {layout.SortedRunV2.ssts: builder.vectors(views, np.array([0, copies]))})
    to = layout.ManifestV2
    empty = np.empty(0, np.int64)
    return builder.finish(
        builder.table(
            {
                to.ssts: builder.vector(ssts),
                to.l0: builder.vector(empty),
                to.compacted: builder.vector(runs),
                to.checkpoints: builder.vector(empty),
            }
        ),
        PREFIX,
    )


@pytest.mark.parametrize(
    ("copies", "key_size"),
    [
        (100_000, 100_000),  # more bytes to compare than there can be: refused at once
        (2_000, 500_000),  # just about allowed: compared, in reasonable time
    ],
)
def test_views_of_one_sst_with_long_keys(copies: int, key_size: int) -> None:
    data = bomb_of_views(copies, key_size)
    decode_manifest(encode_manifest(rich_manifest()), object=OBJECT)  # compiles the kernels
    peak, elapsed = peak_of(lambda: decode_manifest(data, object=OBJECT))
    assert peak < 20 * len(data) + 200_000
    assert elapsed < 5


def test_memory_stays_in_proportion_to_the_file() -> None:
    """Over many mutations of a rich manifest, nothing asks for more than a small multiple of its bytes."""
    chance = random.Random(5)
    whole = encode_manifest(rich_manifest())
    for _ in range(60):
        data = mutate(chance, whole, KINDS) or b"\x00"
        peak, _ = peak_of(partial(decode_manifest, data, object=OBJECT))
        assert peak < 60 * len(whole) + 300_000


@pytest.mark.long
async def test_what_we_take_from_damaged_files_and_write_the_wheel_reads(tmp_path: Path) -> None:
    """Whatever survives our reading and our rules does not make the original stumble."""
    chance = random.Random(77)
    files = tmp_path / "db" / "manifest"
    files.mkdir(parents=True)
    taken = 0
    wheel = admin(tmp_path, "db")
    while taken < share_of(500):
        data, decode = chance.choice(manifests())
        value = attempt(decode, mutate(chance, data, KINDS) or b"\x00")
        if not isinstance(value, Manifest):
            continue
        with contextlib.suppress(InvalidError):
            written = encode_manifest(value)
            taken += 1
            (files / f"{taken:020d}.manifest").write_bytes(written)
            theirs = wheels_manifest(await wheel.read_manifest(taken))
            ours = our_manifest(decode_manifest(written, object=OBJECT))
            assert theirs | {"root": None, "segments": None} == ours | {"root": None, "segments": None}
