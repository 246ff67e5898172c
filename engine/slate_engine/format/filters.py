"""Filter policies and the filter block of an SST.

A policy says what is hashed: whole keys, prefixes of keys, or both. The block names the policy of each filter in it, and a
reader uses only a filter whose name is that of a policy of its own: another extractor would have hashed other prefixes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

from slate_engine.errors import CorruptData, InvalidError
from slate_engine.format.bloom import BloomFilter
from slate_engine.format.columns import I64, U64, Bytes
from slate_engine.format.kernel import kernel
from slate_engine.format.memory import load_u8, octets, readonly
from slate_engine.format.siphash import hash_items, hash_spans
from slate_engine.format.sst_meta import FilterFormat

PLAIN = "_bf"
"""The name of a bloom filter of whole keys, and the only policy there was when filter blocks had no names."""


@dataclass(frozen=True, slots=True)
class Point:
    """A whole key: one that is stored, or one that is looked up."""

    key: bytes


@dataclass(frozen=True, slots=True)
class Prefix:
    """What all keys of a scan begin with."""

    prefix: bytes


PrefixTarget: TypeAlias = Point | Prefix


class PrefixExtractor(Protocol):
    """Cuts the prefix off a key. For a :class:`Prefix` it may answer only if every longer key has that same prefix."""

    def name(self) -> str: ...

    def prefix_len(self, target: PrefixTarget) -> int | None: ...


@runtime_checkable
class ColumnExtractor(PrefixExtractor, Protocol):
    """An extractor that can also do a whole column of keys at once."""

    def prefix_lens(self, keys: Bytes) -> I64:
        """The length of the prefix of each key, -1 where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class FixedPrefix:
    """The first ``length`` bytes of every key that has as many."""

    length: int

    def name(self) -> str:
        return f"fixed{self.length}"

    def prefix_len(self, target: PrefixTarget) -> int | None:
        have = target.key if isinstance(target, Point) else target.prefix
        return self.length if len(have) >= self.length else None

    def prefix_lens(self, keys: Bytes) -> I64:
        return np.where(keys.lengths >= self.length, self.length, -1).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Bloom:
    """The policy of one bloom filter."""

    bits_per_key: int = 10
    extractor: PrefixExtractor | None = None
    whole_keys: bool = True

    def __post_init__(self) -> None:
        if self.bits_per_key < 1:
            raise InvalidError(f"a bloom filter of {self.bits_per_key} bits per key finds nothing; give it 10")

    @property
    def name(self) -> str:
        extractor = f":p={self.extractor.name()}" if self.extractor else ""
        return PLAIN + extractor + ("" if self.whole_keys else ":wh=0")

    def may_have_keys(self, bloom: BloomFilter, keys: Bytes) -> npt.NDArray[np.bool_]:
        """For each key: may the SST that ``bloom`` is of have it?"""
        if self.whole_keys:
            return bloom.contains(hash_items(keys))
        lengths = prefix_lens(self.extractor, keys) if self.extractor else np.full(len(keys), -1)
        answer = bloom.contains(hash_spans(keys.data, keys.offsets[:-1], np.maximum(lengths, 0)))
        return answer | (lengths < 0)

    def may_have_key(self, bloom: BloomFilter, key: bytes) -> bool:
        """The same for one key."""
        if self.whole_keys:
            return bloom.holds(octets(key))
        length = self.extractor.prefix_len(Point(key)) if self.extractor else None
        return length is None or bloom.holds(octets(key[:length]))

    def tells_prefix(self, prefix: bytes) -> bool:
        """Whether a filter can say anything of the keys that begin so."""
        return self.extractor is not None and self.extractor.prefix_len(Prefix(prefix)) is not None

    def may_have_prefix(self, bloom: BloomFilter, prefix: bytes) -> bool:
        """May the SST that ``bloom`` is of have a key that begins so?"""
        length = self.extractor.prefix_len(Prefix(prefix)) if self.extractor else None
        return length is None or bloom.holds(octets(prefix[:length]))


def prefix_lens(extractor: PrefixExtractor, keys: Bytes) -> I64:
    """The length of the prefix of each key, -1 where it has none; one call per key unless the extractor takes columns."""
    if isinstance(extractor, ColumnExtractor):
        lengths = extractor.prefix_lens(keys)
    else:
        answers = (extractor.prefix_len(Point(key)) for key in keys)
        lengths = np.fromiter((-1 if answer is None else answer for answer in answers), np.int64, len(keys))
    if (lengths > keys.lengths).any():
        raise InvalidError(
            f"prefix extractor {extractor.name()!r} returned a prefix longer than its key; it must return at most the "
            "length of the key"
        )
    return lengths


@kernel
def _starts_run(data: Any, starts: I64, lengths: I64, last: Any, runs: npt.NDArray[np.bool_]) -> int:
    """Mark the rows whose prefix differs from that of the row before, leaving out rows without one. ``last`` is the prefix
    before the first row. Gives the row whose prefix is the last one, or -1."""
    before = -1
    for i in range(len(starts)):
        length = int(lengths[i])
        runs[i] = False
        if length < 0:
            continue
        start = int(starts[i])
        old_start = 0
        old_length = len(last)
        if before >= 0:
            old_start = int(starts[before])
            old_length = int(lengths[before])
        differs = length != old_length
        for j in range(0 if differs else length):
            old = load_u8(data, old_start + j) if before >= 0 else load_u8(last, old_start + j)
            if load_u8(data, start + j) != old:
                differs = True
                break
        runs[i] = differs
        before = i
    return before


class BloomBuilder:
    """Collects the hashes of one SST's rows as they come, in key order."""

    def __init__(self, policy: Bloom) -> None:
        self._policy = policy
        self._hashes: list[U64] = []
        self._last: bytes | None = None

    def append(self, keys: Bytes, hashes: U64) -> None:
        """Take the next keys; ``hashes`` are those of the whole keys, which the policies of an SST share."""
        if self._policy.extractor:
            self._append_prefixes(self._policy.extractor, keys)
        if self._policy.whole_keys:
            self._hashes.append(hashes)

    def _append_prefixes(self, extractor: PrefixExtractor, keys: Bytes) -> None:
        lengths = prefix_lens(extractor, keys)
        data, starts = octets(keys.data), readonly(keys.offsets[:-1])
        runs = np.empty(len(keys), np.bool_)
        ended = _starts_run(data, starts, readonly(lengths), octets(self._last or b""), runs)
        if self._last is None and ended >= 0:
            runs[np.flatnonzero(lengths >= 0)[0]] = True  # an empty first prefix is a run, too
        if ended >= 0:
            start = int(starts[ended])
            self._last = data[start : start + int(lengths[ended])].tobytes()
        self._hashes.append(hash_spans(data, starts[runs], lengths[runs]))

    def build(self) -> BloomFilter:
        return BloomFilter.of(np.concatenate([*self._hashes, np.empty(0, np.uint64)]), self._policy.bits_per_key)


class NamedFilter(NamedTuple):
    """One filter of a filter block, not yet decoded."""

    name: str
    data: memoryview


def encode_filters(filters: Iterable[tuple[str, bytes]]) -> bytes:
    """The composite filter block."""
    named = [(name.encode(), data) for name, data in filters]
    parts = [len(named).to_bytes(2, "big")]
    for name, data in named:
        parts += [len(name).to_bytes(2, "big"), name, len(data).to_bytes(8, "big"), data]
    return b"".join(parts)


def decode_filters(block: Any, layout: FilterFormat, *, object: str = "", base: int = 0) -> list[NamedFilter]:
    """The filters in an unpacked filter block."""
    view = memoryview(block)
    if layout is FilterFormat.LEGACY:
        filters = [NamedFilter(PLAIN, view)]
    else:
        filters = list(_split(view, object, base))
    for name, data in filters:
        if name.partition(":")[0] == PLAIN and len(data) < 2:
            raise CorruptData(f"a bloom filter of {len(data)} bytes", object=object, offset=base)
    return filters


def _split(view: memoryview, object: str, base: int) -> Iterator[NamedFilter]:
    at = 0

    def take(length: int) -> memoryview:
        nonlocal at
        if at + length > len(view):
            raise CorruptData("the filter block is cut short", object=object, offset=base)
        at += length
        return view[at - length : at]

    for _ in range(int.from_bytes(take(2), "big")):
        raw_name = bytes(take(int.from_bytes(take(2), "big")))
        try:
            name = raw_name.decode()
        except UnicodeDecodeError:
            raise CorruptData(f"a filter has the name {raw_name!r}", object=object, offset=base) from None
        yield NamedFilter(name, take(int.from_bytes(take(8), "big")))
    if at != len(view):
        raise CorruptData(f"{len(view) - at} bytes follow the last filter", object=object, offset=base)


def choose(filters: Sequence[NamedFilter], policies: Sequence[Bloom]) -> list[tuple[Bloom, BloomFilter]]:
    """The filters that a reader with these policies may ask, each with its policy; others are left alone."""
    by_name = {policy.name: policy for policy in policies}
    return [(by_name[name], BloomFilter.decode(data)) for name, data in filters if name in by_name]
