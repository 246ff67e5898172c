"""Random rows for the round trips: many versions of few keys, long and short, of every kind."""

from __future__ import annotations

from hypothesis import strategies as st

from slate_engine.format.columns import HAS_CREATE, HAS_EXPIRE, MERGE, TOMBSTONE
from slate_engine.format.filters import Bloom, FixedPrefix
from slate_engine.format.sst_build import SstOptions
from slate_engine.format.sst_meta import Codec
from tests.unit.format.plain import Row
from tests.unit.format.samples import First3

TIMES = st.integers(-(2**63), 2**63 - 1)

keys = (
    st.text("ab", min_size=1, max_size=6).map(str.encode)
    | st.binary(min_size=1, max_size=24)
    | st.builds(lambda head, length: head + b"k" * length, st.binary(min_size=1, max_size=2), st.integers(100, 20_000))
)
values = (
    st.just(b"")
    | st.binary(max_size=40)
    | st.builds(lambda item, count: item * count, st.binary(min_size=1, max_size=8), st.integers(1, 10_000))
)


@st.composite
def rows(draw: st.DrawFn, max_size: int = 60) -> list[Row]:
    """Rows sorted by key and falling seq, each (key, seq) once."""
    order = draw(st.lists(st.tuples(keys, st.integers(0, 2**64 - 1)), min_size=1, max_size=max_size, unique=True))
    order.sort(key=lambda item: (item[0], -item[1]))
    return [draw(row(key, seq)) for key, seq in order]


@st.composite
def row(draw: st.DrawFn, key: bytes, seq: int) -> Row:
    flags = (
        draw(st.sampled_from([0, TOMBSTONE, MERGE]))
        | draw(st.sampled_from([0, HAS_CREATE]))
        | draw(st.sampled_from([0, HAS_EXPIRE]))
    )
    return (
        key,
        b"" if flags & TOMBSTONE else draw(values),
        seq,
        flags,
        draw(TIMES) if flags & HAS_CREATE else 0,
        draw(TIMES) if flags & HAS_EXPIRE else 0,
    )


options = st.builds(
    SstOptions,
    block_size=st.sampled_from([1, 100, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]),
    codec=st.sampled_from(list(Codec)),
    min_filter_keys=st.sampled_from([0, 20, 1000]),
    filters=st.sampled_from(
        [(), (Bloom(),), (Bloom(12, First3()), Bloom(5)), (Bloom(10, FixedPrefix(2), whole_keys=False),)]
    ),
)
