"""Random databases: small pools of keys, so that keys have many versions; values of all sizes; every option."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import Phase
from hypothesis import strategies as st

from slate_engine.format.filters import Bloom, FixedPrefix
from slate_engine.format.key_range import ALL, UNBOUNDED, Bound, KeyRange
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from tests.interop.history import Kind, Operation
from tests.interop.plan import Collect, Compact, Flush, FlushWal, Hold, Keep, Plan, Reopen, Step, Write
from tests.interop.style import Style

LONG_AGO_MS = 1_500_000_000_000
FAR_AWAY_MS = 4_100_000_000_000
"""Times at which a row has expired before it was written, or will when nobody runs these tests any more."""

SEGMENTS = (b"aa", b"ab", b"\xff\xff")

UNSHRUNK = (Phase.explicit, Phase.reuse, Phase.generate)
"""It takes minutes to find the smallest database that fails. The long suite does that, the fast one reports at once."""

BLOCK_SIZES = st.sampled_from([1 << shift for shift in range(10, 17)])
EXTRACTORS = st.builds(FixedPrefix, st.integers(1, 3))
BLOOMS = st.one_of(
    st.builds(Bloom, st.integers(1, 20)),
    st.builds(Bloom, st.integers(1, 20), EXTRACTORS, whole_keys=st.booleans()),
)
FILTERS = st.lists(BLOOMS, max_size=2, unique_by=lambda bloom: bloom.name).map(tuple)
SST_OPTIONS = st.builds(
    SstOptions,
    block_size=BLOCK_SIZES,
    codec=st.sampled_from(Codec),
    min_filter_keys=st.sampled_from([0, 1, 20, 1000]),
    filters=FILTERS,
)
STYLES = st.builds(
    Style,
    SST_OPTIONS,
    segments=st.none() | st.just(FixedPrefix(2)),
    wal=st.sampled_from([True, True, True, False]),
    stats=st.booleans(),
)


def blob(seed: int, length: int, period: int) -> bytes:
    """Bytes that look random, and repeat after ``period`` of them: what compresses well, and what does not."""
    noise = random.Random(seed).randbytes(min(period, length))
    return (noise * (length // max(len(noise), 1) + 1))[:length]


def blobs(most: int) -> st.SearchStrategy[bytes]:
    return st.builds(blob, st.integers(0, 255), st.integers(0, most), st.sampled_from([1, 100, 1 << 30]))


VALUES = st.one_of(st.binary(max_size=12), blobs(300), st.just(b""), blobs(9000))
EXPIRY = st.sampled_from([None, None, None, LONG_AGO_MS, FAR_AWAY_MS, FAR_AWAY_MS + 1])
KINDS = st.sampled_from([Kind.PUT, Kind.PUT, Kind.PUT, Kind.DELETE, Kind.MERGE])
MOSTLY_MERGES = st.sampled_from([Kind.MERGE, Kind.MERGE, Kind.MERGE, Kind.MERGE, Kind.MERGE, Kind.PUT, Kind.DELETE])


def keys(style: Style) -> st.SearchStrategy[bytes]:
    any_key = st.one_of(
        st.binary(min_size=1, max_size=6),
        st.integers(0, 99).map(lambda n: b"user:%04d" % n),
        st.builds(blob, st.integers(0, 9), st.integers(200, 3000), st.just(7)),
    )
    if style.segments is None:
        return any_key
    return st.tuples(st.sampled_from(SEGMENTS), any_key).map(b"".join)


def operations(pool: list[bytes]) -> st.SearchStrategy[Operation]:
    def operation(kind: Kind, key: bytes, value: bytes, expire_ts: int | None) -> Operation:
        return Operation(kind, key) if kind is Kind.DELETE else Operation(kind, key, value, expire_ts)

    # Some keys collect operands: their values come from all over the database.
    return st.one_of(
        st.builds(operation, KINDS, st.sampled_from(pool), VALUES, EXPIRY),
        st.builds(operation, MOSTLY_MERGES, st.sampled_from(pool[::3]), VALUES, EXPIRY),
    )


@st.composite
def bulk(draw: Callable[..., Any], pool: list[bytes]) -> Write:
    """Many small rows at once, enough for several blocks and a filter worth its name."""
    seed, count = draw(st.integers(0, 99)), draw(st.integers(50, 600))
    prefix = draw(st.sampled_from(pool))[:2]
    chance = random.Random(seed)
    numbers = chance.sample(range(5000), count)
    return Write(tuple(Operation(Kind.PUT, b"%sn%05d" % (prefix, n), b"%d" % n * (n % 20)) for n in numbers))


COMPACT = st.builds(
    Compact,
    which=st.integers(0, 2),
    l0=st.integers(0, 4),
    runs=st.sampled_from([0, 0, 0, 1, 2]),
    cuts=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=4).map(tuple),
    split=st.booleans(),
    drop=st.booleans(),
)


def steps(pool: list[bytes]) -> st.SearchStrategy[tuple[Step, ...]]:
    """Rounds of a few commits and something that happens to them."""
    write = st.builds(Write, st.lists(operations(pool), min_size=1, max_size=6, unique_by=lambda op: op.key).map(tuple))
    flush = st.builds(Flush, st.integers(0, 2))
    after: st.SearchStrategy[list[Step]] = st.one_of(
        st.just([FlushWal()]),
        st.just([Keep()]),
        st.just([Reopen()]),
        st.just([Hold()]),
        flush.map(lambda step: [step, Collect()]),
        st.tuples(flush, COMPACT).map(list),
        st.tuples(flush, COMPACT, COMPACT).map(list),
        st.tuples(bulk(pool), flush).map(list),
    )
    rounds = st.tuples(st.lists(write, min_size=2, max_size=5), after).map(lambda both: [*both[0], *both[1]])
    return st.lists(rounds, min_size=2, max_size=7).map(
        lambda several: tuple(step for each in several for step in each)
    )


def ranges(pool: list[bytes]) -> st.SearchStrategy[KeyRange]:
    """What a clone may take: all, or a range whose start belongs to it."""
    bound = st.sampled_from(pool)
    start = st.none() | bound
    return st.one_of(
        st.just(ALL),
        st.builds(
            lambda start, end, inclusive: KeyRange(
                UNBOUNDED if start is None else Bound.included(start),
                UNBOUNDED if end is None else Bound.included(end) if inclusive else Bound.excluded(end),
            ),
            start,
            start,
            st.booleans(),
        ).filter(lambda keys: not keys.is_empty),
    )


@st.composite
def plans(draw: Callable[..., Any], styles: st.SearchStrategy[Style] = STYLES) -> Plan:
    style = draw(styles)
    pool = draw(st.lists(keys(style), min_size=2, max_size=8, unique=True))
    return Plan(style, draw(steps(pool)), draw(ranges(pool)), draw(steps(pool)))
