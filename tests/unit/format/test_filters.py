"""Bloom filters: hashes and probes to the bit, policies and their names, the block that holds them."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slate_engine.errors import CorruptData, InvalidError
from slate_engine.format.bloom import BloomFilter
from slate_engine.format.columns import Bytes
from slate_engine.format.filters import (
    Bloom,
    BloomBuilder,
    FixedPrefix,
    Point,
    PrefixTarget,
    choose,
    decode_filters,
    encode_filters,
)
from slate_engine.format.siphash import hash_items
from slate_engine.format.sst_meta import FilterFormat
from tests.unit.format import plain
from tests.unit.format.samples import First3

VECTORS = {
    b"": 0xD1FBA762150C532C,
    b"a": 0x407448D2B89B1813,
    b"user:00001": 0x381B7C9E71F7758F,
    b"0123456789abcdef": 0x1D42B30F7E060C24,
}


def built(policy: Bloom, keys: list[bytes], parcels: int = 1) -> BloomFilter:
    builder = BloomBuilder(policy)
    column = Bytes.of(keys)
    cuts = np.linspace(0, len(keys), parcels + 1).astype(int).tolist()
    for a, b in itertools.pairwise(cuts):
        part = column.slice(a, b)
        builder.append(part, hash_items(part))
    return builder.build()


def test_the_published_hashes() -> None:
    assert hash_items(Bytes.of(VECTORS)).tolist() == list(VECTORS.values())
    assert [plain.siphash13(key) for key in VECTORS] == list(VECTORS.values())


@given(st.lists(st.binary(max_size=70)))
def test_hashes_of_anything(keys: list[bytes]) -> None:
    assert hash_items(Bytes.of(keys)).tolist() == [plain.siphash13(key) for key in keys]


def test_hashes_of_a_slice() -> None:
    keys = [b"%d" % i for i in range(100)]
    assert hash_items(Bytes.of(keys).slice(40, 60)).tolist() == [plain.siphash13(key) for key in keys[40:60]]


def test_the_published_probes() -> None:
    assert plain.probes(VECTORS[b"a"], 6, 80) == [67, 69, 72, 77, 5, 17]
    assert plain.probes(VECTORS[b"user:00001"], 6, 80) == [15, 45, 76, 29, 65, 25]
    for key in (b"a", b"user:00001"):
        one = BloomFilter.of(np.tile(hash_items(Bytes.of([key])), 8), 10)
        set_bits = np.flatnonzero(np.unpackbits(one.array, bitorder="little")).tolist()
        assert set_bits == sorted(plain.probes(VECTORS[key], 6, 80))


def test_the_published_filter_block() -> None:
    bloom = built(Bloom(10), [b"k1", b"k1", b"k2x"])
    assert encode_filters([("_bf", bloom.encode())]) == bytes.fromhex("000100035f62660000000000000006" + "0006012a6149")


@given(st.lists(st.binary(max_size=20), max_size=50).map(sorted), st.integers(1, 40))
def test_filters_of_anything(keys: list[bytes], bits_per_key: int) -> None:
    bloom = built(Bloom(bits_per_key), keys)
    assert bloom.encode() == plain.bloom([plain.siphash13(key) for key in keys], bits_per_key)
    assert BloomFilter.decode(bloom.encode()).contains(hash_items(Bytes.of(keys))).all()


def test_few_are_let_in_by_mistake() -> None:
    chance = random.Random(1)
    keys = [chance.randbytes(16) for _ in range(20_000)]
    bloom = built(Bloom(10), keys)
    strangers = Bytes.of(chance.randbytes(17) for _ in range(20_000))
    assert bloom.contains(hash_items(strangers)).mean() < 0.02


def test_an_empty_filter_holds_nothing() -> None:
    empty = built(Bloom(10), [])
    assert empty.encode() == b"\x00\x06"
    assert not empty.contains(hash_items(Bytes.of([b"a"]))).any()


@pytest.mark.parametrize(("bits_per_key", "probes"), [(1, 0), (2, 1), (10, 6), (12, 8), (100_000, 65_535)])
def test_how_many_probes(bits_per_key: int, probes: int) -> None:
    assert built(Bloom(bits_per_key), [b"a"]).probes == probes


def test_a_filter_without_bits_would_hide_every_row() -> None:
    with pytest.raises(InvalidError):
        Bloom(0)


def test_names() -> None:
    assert Bloom().name == "_bf"
    assert Bloom(12, First3()).name == "_bf:p=first3"
    assert Bloom(12, First3(), whole_keys=False).name == "_bf:p=first3:wh=0"
    assert Bloom(whole_keys=False).name == "_bf:wh=0"


KEYS = sorted([b"ab", b"abc1", b"abc2", b"abd", b"x", b"xyz", b"xyz9"])


class UpToColon:
    """A prefix of any length: what stands before the first colon, which may be nothing."""

    def name(self) -> str:
        return "colon"

    def prefix_len(self, target: PrefixTarget) -> int | None:
        have = target.key if isinstance(target, Point) else target.prefix
        at = have.find(b":")
        return None if at < 0 else at


def prefix_hashes(extractor: First3 | UpToColon, keys: list[bytes]) -> list[int]:
    found: list[int] = []
    last: bytes | None = None
    for key in keys:
        length = extractor.prefix_len(Point(key))
        if length is not None and key[:length] != last:
            last = key[:length]
            found.append(plain.siphash13(last))
    return found


@pytest.mark.parametrize("parcels", [1, 2, 3, 7])
def test_a_prefix_is_hashed_once_for_the_rows_that_share_it(parcels: int) -> None:
    whole = [plain.siphash13(key) for key in KEYS]
    prefixes = prefix_hashes(First3(), KEYS)
    assert len(prefixes) == 3
    assert built(Bloom(10, First3()), KEYS, parcels).encode() == plain.bloom(whole + prefixes, 10)
    assert built(Bloom(10, First3(), whole_keys=False), KEYS, parcels).encode() == plain.bloom(prefixes, 10)


@given(st.lists(st.text("ab:", max_size=5).map(str.encode), max_size=40).map(sorted), st.integers(1, 5))
def test_prefixes_of_any_length(keys: list[bytes], parcels: int) -> None:
    policy = Bloom(10, UpToColon(), whole_keys=False)
    assert built(policy, keys, parcels).encode() == plain.bloom(prefix_hashes(UpToColon(), keys), 10)


def test_a_column_extractor_gives_what_a_row_extractor_gives() -> None:
    rows, columns = built(Bloom(10, First3()), KEYS), built(Bloom(10, FixedPrefix(3)), KEYS)
    assert columns.encode() == rows.encode()
    assert FixedPrefix(3).name() == "fixed3"


def test_whom_a_prefix_filter_can_answer() -> None:
    both, prefixes = Bloom(10, First3()), Bloom(10, First3(), whole_keys=False)
    bloom = built(prefixes, KEYS)
    asked = [b"abc7", b"xyz", b"ab", b"", b"qqq1"]
    # A key without a prefix is not in the filter, so the filter cannot deny it.
    assert prefixes.may_have_keys(bloom, Bytes.of(asked)).tolist() == [True, True, True, True, False]
    assert prefixes.may_have_prefix(bloom, b"abc")
    assert prefixes.may_have_prefix(bloom, b"abc1")
    assert prefixes.may_have_prefix(bloom, b"qq")
    assert not prefixes.may_have_prefix(bloom, b"qqq")
    assert Bloom().may_have_prefix(built(Bloom(), KEYS), b"qqq")
    assert Bloom(whole_keys=False).may_have_keys(built(Bloom(), KEYS), Bytes.of([b"qqq"])).all()
    assert both.may_have_keys(built(both, KEYS), Bytes.of(KEYS)).all()


def test_an_extractor_may_not_answer_more_than_the_key() -> None:
    class TooLong(First3):
        def prefix_len(self, target: PrefixTarget) -> int | None:
            return 50

    with pytest.raises(InvalidError, match="longer than its key"):
        built(Bloom(10, TooLong()), KEYS)


def test_a_reader_uses_the_filters_of_its_own_policies() -> None:
    policies = [Bloom(), Bloom(10, First3())]
    blooms = [(policy, built(policy, KEYS)) for policy in policies]
    block = encode_filters([("other", b"\xff"), *((policy.name, bloom.encode()) for policy, bloom in blooms)])
    named = decode_filters(block, FilterFormat.COMPOSITE)
    assert [name for name, _ in named] == ["other", "_bf", "_bf:p=first3"]
    ((policy, bloom),) = choose(named, [Bloom(20, First3())])
    assert policy.bits_per_key == 20
    assert bloom.encode() == blooms[1][1].encode()
    assert choose(named, [Bloom(10, UpToColon())]) == []


def test_a_legacy_block_is_one_nameless_filter() -> None:
    bloom = built(Bloom(), KEYS)
    ((policy, found),) = choose(decode_filters(bloom.encode(), FilterFormat.LEGACY), [Bloom(10, First3()), Bloom()])
    assert policy == Bloom()
    assert found.encode() == bloom.encode()


def test_filter_blocks_that_do_not_hold_together() -> None:
    block = encode_filters([("_bf", b"\x00\x06abc"), ("x", b"")])
    wrong = [block[:cut] for cut in range(len(block))] + [block + b"\x00", block.replace(b"_bf", b"\xff\xff\xff")]
    for case in wrong:
        with pytest.raises(CorruptData) as caught:
            decode_filters(case, FilterFormat.COMPOSITE, object="x.sst", base=9)
        assert (caught.value.object, caught.value.offset) == ("x.sst", 9)
    for short in (b"", b"\x00"):
        with pytest.raises(CorruptData, match="bloom filter of"):
            decode_filters(short, FilterFormat.LEGACY)
        with pytest.raises(CorruptData, match="bloom filter of"):
            decode_filters(encode_filters([("_bf:p=x", short)]), FilterFormat.COMPOSITE)
        assert decode_filters(encode_filters([("other", short)]), FilterFormat.COMPOSITE)[0].data == short
