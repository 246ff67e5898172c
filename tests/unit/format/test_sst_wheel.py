"""The original opens databases whose SSTs and WAL files we built, and gives the rows that went in.

Runs of several SSTs of random rows, in every codec and block size; point reads go through our filters.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest
import slatedb.uniffi as wheel

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Rows
from slate_engine.format.filters import Bloom
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.format.sst_meta import Codec
from slate_engine.format.wal import build_wal_sst
from slate_engine.state.manifest import Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import Views
from tests.unit.format.plain import Row
from tests.unit.format.samples import First3

T = 1_700_000_000_000
Seen = tuple[bytes, bytes, int, int, int | None]


class Joined(wheel.MergeOperator):  # type: ignore[misc]
    """Operands are put behind what is there."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


class FirstThree(wheel.PrefixExtractor):  # type: ignore[misc]
    def name(self) -> str:
        return "first3"

    def prefix_len(self, target: wheel.PrefixTarget) -> int | None:
        have = target.key if target.is_point() else target.prefix
        return 3 if len(have) >= 3 else None


def drawn(chance: random.Random, count: int, first_seq: int) -> list[Row]:
    """Rows of every kind, some keys in several versions, sorted."""
    keys = sorted({chance.choice(KEYS)(chance) for _ in range(count)})
    rows: list[Row] = []
    seq = first_seq
    for key in keys:
        versions = chance.choice([1, 1, 1, 3])
        seq += versions
        for version in range(versions):
            flags = HAS_CREATE | chance.choice([0, 0, TOMBSTONE, MERGE]) | chance.choice([0, 0, HAS_EXPIRE])
            value = b"" if flags & TOMBSTONE else chance.choice(VALUES)(chance)
            rows.append((key, value, seq - version, flags, T + seq, T + 10**9 + seq if flags & HAS_EXPIRE else 0))
    return rows


KEYS = [
    lambda chance: bytes([chance.randrange(256)]),
    lambda chance: b"user:%06d" % chance.randrange(10_000),
    lambda chance: b"user:%06d" % chance.randrange(10_000),
    lambda chance: b"user:%06d" % chance.randrange(10_000),
    lambda chance: chance.randbytes(chance.randint(1, 40)),
]
VALUES = [
    lambda _: b"",
    lambda chance: chance.randbytes(chance.randint(1, 20)),
    lambda chance: b"text " * chance.randint(1, 60),
]


def resolved(rows: Iterable[Row]) -> list[Seen]:
    """What a reader sees: for each key its newest value, operands folded onto it."""
    seen: list[Seen] = []
    for key, versions in groupby(sorted(rows, key=lambda row: (row[0], -row[2])), key=lambda row: row[0]):
        operands: list[Row] = []
        for row in versions:
            operands.append(row)
            if not row[3] & MERGE:
                break
        if operands[0][3] & TOMBSTONE:
            continue
        newest = operands[0]
        if not newest[3] & MERGE:
            operands = [newest]
        folded = [row for row in operands if not row[3] & TOMBSTONE]
        value = b"".join(row[1] for row in reversed(folded))
        expires = [row[5] for row in operands if row[3] & HAS_EXPIRE]
        created = max(row[4] for row in operands)
        seen.append((key, value, newest[2], created, min(expires) if expires else None))
    return seen


def write_database(root: Path, runs: list[list[Row]], wal: list[Row], options: SstOptions, per_sst: int) -> None:
    """A database of sorted runs (the newest first) and one WAL file, every byte of it ours."""
    for folder in ("manifest", "compacted", "wal"):
        (root / folder).mkdir(parents=True)
    chance = random.Random(1)
    tree = Tree()
    for number, rows in enumerate(reversed(runs)):
        handles = []
        for start in range(0, len(rows), per_sst):
            built = build_sst(Rows.of(rows[start : start + per_sst]), options)
            handle = SstHandle(Ulid.of(T + number, chance.getrandbits(80)), built.info, built.version)
            (root / "compacted" / f"{handle.id}.sst").write_bytes(built.tobytes())
            handles.append(handle)
        tree = tree.with_run(SortedRun(number, Views.of_ssts(Ssts.of(handles))))
    if wal:
        (root / "wal" / f"{1:020d}.sst").write_bytes(build_wal_sst(Rows.of(wal), options.codec).tobytes())
    manifest = Manifest(
        wal_id_last_seen=1 if wal else 0,
        last_l0_clock_tick=T,
        last_l0_seq=max(row[2] for rows in runs for row in rows),
    ).with_root(tree)
    (root / "manifest" / f"{1:020d}.manifest").write_bytes(encode_manifest(manifest))


async def open_reader(root: Path, *policies: wheel.FilterPolicy) -> wheel.DbReader:
    store = wheel.ObjectStoreBuilder(wheel.ObjectStoreType.LOCAL)
    store.with_config("local_path", str(root.parent))
    builder = wheel.DbReaderBuilder(root.name, store.build())
    builder.with_reader_mode(wheel.ReaderMode.FOLLOW_LATEST())
    builder.with_merge_operator(Joined())
    if policies:
        builder.with_filter_policies(list(policies))
    return await builder.build()


async def scanned(reader: wheel.DbReader) -> list[Seen]:
    iterator = await reader.scan(wheel.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False))
    rows: list[Seen] = []
    while batch := await iterator.next_batch(1000):
        rows += [(bytes(row.key), bytes(row.value), row.seq, row.create_ts, row.expire_ts) for row in batch]
    return rows


BLOCK_SIZES = [1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]


@pytest.mark.parametrize("codec", list(Codec), ids=lambda codec: codec.name)
@pytest.mark.parametrize("seed", range(3))
async def test_random_databases(tmp_path: Path, codec: Codec, seed: int) -> None:
    chance = random.Random(f"{codec} {seed}")
    options = SstOptions(chance.choice(BLOCK_SIZES), codec, min_filter_keys=0)
    old = drawn(chance, 900, first_seq=1)
    new = drawn(chance, 300, first_seq=1 + max(row[2] for row in old))
    tail = drawn(chance, 60, first_seq=1 + max(row[2] for row in new))
    # Only the newest version of a key can be in one commit, and commits come by rising seq.
    wal = sorted({row[0]: row for row in reversed(tail)}.values(), key=lambda row: row[2])
    write_database(tmp_path / "db", [new, old], wal, options, per_sst=400)
    reader = await open_reader(tmp_path / "db")
    expected = resolved([*old, *new, *wal])
    assert await scanned(reader) == expected
    for key, value, *_ in chance.sample(expected, 40):
        assert await reader.get(key) == value
    assert await reader.get(b"not there") is None
    await reader.shutdown()


async def test_the_largest_rows(tmp_path: Path) -> None:
    chance = random.Random(8)
    rows: list[Row] = [
        (b"a", b"", 5, HAS_CREATE, T, 0),
        (b"k" * 100 * 1024, chance.randbytes(8 << 20), 6, HAS_CREATE, T, 0),
        (b"k" * 100 * 1024 + b"x", b"after", 7, HAS_CREATE, T, 0),
        (b"z", bytes(8 << 20), 8, HAS_CREATE, T, 0),
    ]
    for codec in (Codec.NONE, Codec.ZSTD):
        root = tmp_path / codec.name.lower()
        write_database(root, [rows], [], SstOptions(codec=codec, min_filter_keys=0), per_sst=3)
        reader = await open_reader(root)
        assert await scanned(reader) == resolved(rows)
        assert await reader.get(b"k" * 100 * 1024) == rows[1][1]
        await reader.shutdown()


async def test_prefix_filters(tmp_path: Path) -> None:
    chance = random.Random(9)
    rows = [row for row in drawn(chance, 600, first_seq=1) if not row[3] & (TOMBSTONE | MERGE)]
    options = SstOptions(min_filter_keys=0, filters=(Bloom(12, First3()),))
    write_database(tmp_path / "db", [rows], [], options, per_sst=200)
    policy = wheel.FilterPolicy.bloom_with_options(wheel.BloomFilterOptions(bits_per_key=12), FirstThree())
    assert policy.name() == options.filters[0].name
    reader = await open_reader(tmp_path / "db", policy)
    for key, value, *_ in resolved(rows):
        assert await reader.get(key) == value
    everything = wheel.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=False)
    for prefix in {key[:4] for key, *_ in rows if len(key) >= 4}:
        iterator = await reader.scan_prefix(prefix, everything)
        found = [bytes(row.key) for row in await iterator.next_batch(5000)]
        assert found == [key for key, *_ in resolved(rows) if key.startswith(prefix)]
    await reader.shutdown()
