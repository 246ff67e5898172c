"""Filter policies: the names under which SSTs store their filters, equal to the wheel's."""

from __future__ import annotations

from typing import Any

import pytest
import slatedb.uniffi as wheel

from slate_engine.api.choices import PrefixTarget
from slate_engine.api.filters import FilterPolicy, PrefixExtractor
from slate_engine.api.options import BloomFilterOptions


def extractor(base: type, name: str) -> Any:
    class Three(base):  # type: ignore[misc]
        def name(self) -> str:
            return name

        def prefix_len(self, target: Any) -> int | None:
            key = target.key if target.is_point() else target.prefix
            return None if len(key) < 3 else 3

    return Three()


@pytest.mark.parametrize("name", [None, "fixed3", "", "a:b=c"])
@pytest.mark.parametrize("whole", [True, False])
def test_names_are_the_wheels(name: str | None, whole: bool) -> None:
    mine = FilterPolicy.bloom_with_options(
        BloomFilterOptions(bits_per_key=10, whole_key_filtering=whole),
        None if name is None else extractor(PrefixExtractor, name),
    )
    theirs = wheel.FilterPolicy.bloom_with_options(
        wheel.BloomFilterOptions(bits_per_key=10, whole_key_filtering=whole),
        None if name is None else extractor(wheel.PrefixExtractor, name),
    )
    assert mine.name() == theirs.name()
    assert (mine.bits_per_key, mine.whole_key_filtering) == (10, whole)


def test_a_policy_keeps_its_extractor() -> None:
    three = extractor(PrefixExtractor, "three")
    policy = FilterPolicy.bloom_with_options(BloomFilterOptions(bits_per_key=8), three)
    assert policy.prefix_extractor is three
    assert three.prefix_len(PrefixTarget.POINT(b"abcd")) == 3
    assert three.prefix_len(PrefixTarget.PREFIX(b"ab")) is None
    assert FilterPolicy.bloom(12).name() == wheel.FilterPolicy.bloom(12).name() == "_bf"


@pytest.mark.parametrize("bits", [-1, 2**32, "10", 1.5, None])
def test_bits_are_refused_as_by_the_wheel(bits: Any) -> None:
    with pytest.raises((TypeError, ValueError)) as theirs:
        wheel.FilterPolicy.bloom(bits)
    with pytest.raises(theirs.type, match="bits_per_key"):
        FilterPolicy.bloom(bits)


def test_other_things_are_refused() -> None:
    with pytest.raises(ValueError, match="no default constructor"):
        FilterPolicy()
    with pytest.raises(TypeError, match="BloomFilterOptions"):
        FilterPolicy.bloom_with_options(None, None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="PrefixExtractor"):
        FilterPolicy.bloom_with_options(BloomFilterOptions(bits_per_key=10), object())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="name of a prefix extractor"):
        FilterPolicy.bloom_with_options(BloomFilterOptions(bits_per_key=10), extractor(PrefixExtractor, None))  # type: ignore[arg-type]
    for method in (PrefixExtractor().name, lambda: PrefixExtractor().prefix_len(PrefixTarget.POINT(b"a"))):
        with pytest.raises(NotImplementedError):
            method()
