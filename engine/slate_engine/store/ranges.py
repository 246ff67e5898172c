"""Fetching many byte ranges of one object with few requests.

A request to an object store costs a round trip whatever its size, so ranges that lie close together are fetched as one,
and the requests that remain run side by side.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence

from slate_engine.errors import InvalidError
from slate_engine.store.protocol import Buffer

GAP = 64 * 1024
"""Ranges at most this far apart are worth fetching together: the bytes between them cost less than a round trip."""
SPAN = 8 << 20
"""But not to more than this: several connections are faster than one."""
CONCURRENCY = 16

Span = tuple[int, int]


def check_ranges(ranges: Sequence[Span]) -> None:
    for start, end in ranges:
        if not 0 <= start <= end:
            raise InvalidError(f"[{start}, {end}) is not a byte range: it must start at 0 or later and not end before")


def coalesce(ranges: Sequence[Span], gap: int = GAP, longest: int = SPAN) -> list[Span]:
    """The spans to fetch so that every non-empty range lies in the last one that starts at or before it."""
    spans: list[Span] = []
    for start, end in sorted(span for span in ranges if span[0] < span[1]):
        if spans:
            first, last = spans[-1]
            if end <= last or (start <= last + gap and end - first <= longest):
                spans[-1] = (first, max(last, end))
                continue
        spans.append((start, end))
    return spans


async def fetch_ranges(
    ranges: Sequence[Span], fetch: Callable[[int, int], Awaitable[Buffer]], gap: int = GAP, longest: int = SPAN
) -> list[Buffer]:
    """The bytes of each range, cut out of what ``fetch`` gives for the spans that cover them.

    ``fetch(start, end)`` gives the bytes up to ``end`` or the object's end, and nothing when it starts at or past the end.
    """
    check_ranges(ranges)
    if len(ranges) == 1 and ranges[0][0] < ranges[0][1]:
        return [await fetch(*ranges[0])]
    spans = coalesce(ranges, gap, longest)
    slots = asyncio.Semaphore(CONCURRENCY)

    async def fetch_span(start: int, end: int) -> memoryview:
        async with slots:
            return memoryview(await fetch(start, end))

    fetched = await asyncio.gather(*(fetch_span(*span) for span in spans))
    starts = [start for start, _ in spans]

    def cut(start: int, end: int) -> Buffer:
        if start == end:
            return b""
        i = bisect_right(starts, start) - 1
        return fetched[i][start - starts[i] : end - starts[i]]

    return [cut(start, end) for start, end in ranges]
