"""SSTs and WAL files with anything wrong in them: the typed error for corrupt data, or rows; nothing else, ever.

Three kinds of damage. To the file as it lies there: checksums must see it. To the inside of a section whose checksum is
then made right: what an enemy, or a bug of another writer, would produce; it gets past the checksums to the decoders. To
the info and the index, again with right checksums: parts that overlap, lie outside, or are somewhere else.
"""

from __future__ import annotations

import gc
import random
import struct
import time
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import fields, replace

import numpy as np
import pytest

from slate_engine.errors import CorruptData, UnsupportedFormat
from slate_engine.format.bloom import BloomFilter
from slate_engine.format.codec import compress, decompress
from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE, Bytes, Rows
from slate_engine.format.filters import Bloom, choose
from slate_engine.format.sst import Sst, open_sst
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.format.sst_meta import BlockIndex, Codec, SstInfo, encode_index, encode_info
from slate_engine.format.wal import build_wal_sst, read_wal
from tests.hostile.mutations import SAME_LENGTH, mutate
from tests.share import share_of
from tests.unit.format.plain import Row, blocks_v1, sst

FAST, LONG = 120, 1000
"""Mutations of one kind for one file."""

SLOWEST = 5.0
ROOM = 64 << 20
"""No file here is larger than 100 KiB: whoever needs more memory than this believed a number that he was given."""


def rows(count: int, rising: bool = False) -> list[Row]:
    chance = random.Random(count)
    out = []
    for i in range(count):
        flags = (
            chance.choice([0, 0, TOMBSTONE, MERGE]) | chance.choice([0, HAS_CREATE]) | chance.choice([0, HAS_EXPIRE])
        )
        value = b"" if flags & TOMBSTONE else chance.randbytes(4) * chance.randint(0, 40)
        create, expire = (chance.getrandbits(60) if flags & bit else 0 for bit in (HAS_CREATE, HAS_EXPIRE))
        out.append(
            (b"key/%05d" % (i // 2) + b"/long" * (i % 5 == 0), value, i if rising else 9999 - i, flags, create, expire)
        )
    return out if rising else sorted(out, key=lambda row: (row[0], -row[2]))


def files() -> dict[str, bytes]:
    found = {f"sst {c.name}": build_sst(Rows.of(rows(300)), SstOptions(1024, c, 0)).tobytes() for c in Codec}
    found |= {
        f"wal {c.name}": build_wal_sst(Rows.of(rows(200, rising=True)), c).tobytes() for c in (Codec.NONE, Codec.ZSTD)
    }
    found["sst version 1"] = sst(list(blocks_v1(rows(300), 1024)), version=1)
    return found


FILES = files()


def read_all(data: bytes) -> list[tuple[Row, ...]]:
    """Everything that there is to read in a file, and a look at every byte of it."""
    opened = open_sst(data, object="hostile.sst")
    if data and opened.info.sst_type == 1:
        assert len(read_wal(data, object="hostile.sst")) == len(opened.rows())
    opened.stats()
    for policy, bloom in choose(opened.filters(), [Bloom()]):
        policy.may_have_keys(BloomFilter(min(bloom.probes, 100), bloom.array), Bytes.of([b"a", b"b"]))
    batch = opened.rows()
    for column in (batch.keys, batch.values):
        assert (column.lengths >= 0).all()
        assert column.offsets[-1] == len(column.data)
    opened.rows(values=False)
    return list(batch.tuples())  # type: ignore[arg-type]


def attempt(data: bytes, unchanged: list[tuple[Row, ...]] | None = None) -> bool:
    """Read it. True if it was refused. If it was not, and ``unchanged`` is given, the rows must be those."""
    started = time.perf_counter()
    refusal: CorruptData | UnsupportedFormat | None = None
    result = None
    try:
        result = read_all(data)
    except (CorruptData, UnsupportedFormat) as error:
        refusal = error
    assert time.perf_counter() - started < SLOWEST
    if refusal is None:
        assert unchanged is None or result == unchanged
        return False
    assert "hostile.sst" in str(refusal)
    if isinstance(refusal, CorruptData):
        assert refusal.object == "hostile.sst"
        assert refusal.offset >= 0
    return True


def reseal(data: bytes, chance: random.Random) -> bytes:
    """Change the inside of a section, leave its length, and make its checksum right again."""
    opened = open_sst(data)
    blocks = opened.index()
    sections = list(zip(blocks.starts.tolist(), blocks.ends.tolist(), strict=True))
    info = opened.info
    others = [
        (info.filter_offset, info.filter_len),
        (info.index_offset, info.index_len),
        (info.stats_offset, info.stats_len),
    ]
    sections = sections + [(at, at + length) for at, length in others if length] * 3
    sections += [(struct.unpack(">Q", data[-10:-2])[0], len(data) - 10)] * 3
    start, end = chance.choice(sections)
    payload = data[start : end - 4]
    for _ in range(chance.randint(1, 3)):
        payload = mutate(chance, payload, SAME_LENGTH)
    return data[:start] + payload + struct.pack(">I", zlib.crc32(payload)) + data[end:]


def rewrite_block(data: bytes, chance: random.Random) -> bytes:
    """Change a block before it is compressed, in any way, and build a file around it."""
    opened = open_sst(data)
    codec, blocks = opened.info.codec, opened.index()
    spans = list(zip(blocks.starts.tolist(), blocks.ends.tolist(), strict=True))
    raw = [bytes(decompress(codec, opened.data[s : e - 4], object="", offset=0)) for s, e in spans]
    at = chance.randrange(len(raw))
    raw[at] = mutate(chance, raw[at]) or b"\x00"
    return sst([bytes(compress(codec, block)) for block in raw], version=opened.version, codec=codec)


def rewrite_meta(data: bytes, chance: random.Random) -> bytes:
    """Other offsets in the info or the index, sealed again."""
    opened = open_sst(data)
    lies = [0, 1, 5, len(data), len(data) - 10, 1 << 31, 1 << 32, 1 << 63, (1 << 64) - 1, chance.randrange(len(data))]
    if chance.random() < 0.5:
        return with_info(opened, replace(opened.info, **{chance.choice(NUMBERS): chance.choice(lies)}))
    blocks = opened.index()
    offsets = blocks.starts.astype(np.uint64)
    offsets[chance.randrange(len(offsets))] = chance.choice(lies)
    index = bytes(compress(opened.info.codec, encode_index(BlockIndex(offsets, blocks.first_keys))))
    sealed = index + struct.pack(">I", zlib.crc32(index))
    body = bytes(opened.data[: opened.info.index_offset]) + sealed
    return with_info(
        Sst(memoryview(body), opened.info, opened.version, ""), replace(opened.info, index_len=len(sealed), stats_len=0)
    )


NUMBERS = [field.name for field in fields(SstInfo) if field.name.endswith(("_offset", "_len"))]


def with_info(opened: Sst, info: SstInfo) -> bytes:
    body = bytes(opened.data[: opened.info.index_offset + opened.info.index_len + opened.info.stats_len])
    encoded = encode_info(info)
    return body + encoded + struct.pack(">IQH", zlib.crc32(encoded), len(body), opened.version)


def bounded(work: Callable[[], None]) -> None:
    read_all(FILES["sst version 1"]), read_all(FILES["sst NONE"])  # kernels are loaded, and do not count
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        work()
        assert tracemalloc.get_traced_memory()[1] - before < ROOM
    finally:
        tracemalloc.stop()


def damage_files(name: str, count: int) -> None:
    data, chance = FILES[name], random.Random(f"{name} damaged")
    expected = read_all(data)
    refused = sum(attempt(mutate(chance, data), expected) for _ in range(count))
    assert refused > 0.9 * count


def damage_sections(name: str, count: int) -> None:
    data, chance = FILES[name], random.Random(f"{name} resealed")
    refused = sum(attempt(reseal(data, chance)) for _ in range(count))
    assert refused > 0.2 * count


def damage_blocks(name: str, count: int) -> None:
    data, chance = FILES[name], random.Random(f"{name} rewritten")
    refused = sum(attempt(rewrite_block(data, chance)) for _ in range(count))
    assert refused > 0.2 * count


def damage_meta(name: str, count: int) -> None:
    data, chance = FILES[name], random.Random(f"{name} relocated")
    refused = sum(attempt(rewrite_meta(data, chance)) for _ in range(count))
    assert refused > 0.4 * count


KINDS = [damage_files, damage_sections, damage_blocks, damage_meta]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_damage(kind: Callable[[str, int], None], name: str) -> None:
    bounded(lambda: kind(name, FAST if "NONE" in name or "version" in name else FAST // 4))


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", KINDS)
def test_damage_at_length(kind: Callable[[str, int], None], name: str) -> None:
    kind(name, share_of(LONG))


def test_the_long_suite_is_long_enough() -> None:
    assert len(FILES) * len(KINDS) * LONG >= 20_000


@pytest.mark.parametrize("name", ["sst NONE", "wal NONE", "sst version 1"])
def test_every_single_bit_counts(name: str) -> None:
    """No bit of a file can change unseen: each is under a checksum, or breaks what finds the checksums."""
    data = FILES[name]
    step = 61
    for at in [*range(0, 8 * len(data), step), *range(8 * (len(data) - 10), 8 * len(data))]:
        changed = bytearray(data)
        changed[at // 8] ^= 1 << at % 8
        assert attempt(bytes(changed)), at


@pytest.mark.parametrize("name", FILES)
def test_every_cut_counts(name: str) -> None:
    data = FILES[name]
    for length in [*range(0, len(data), 97), *range(len(data) - 40, len(data))]:
        assert attempt(data[:length]) or length == 0
