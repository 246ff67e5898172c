"""How a job is cut up: into a few ranges that are merged side by side, and these into chunks that fit into memory.

Block indexes say how many bytes lie between which keys, so nothing but them is read for it (see
:mod:`slate_engine.lsm.cuts`). No chunk holds a part of a key's versions only: what is kept of a key depends on all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from slate_engine.format.columns import I64, Bytes
from slate_engine.format.key_range import ALL, UNBOUNDED, Bound, KeyRange
from slate_engine.format.sst import BlockMap
from slate_engine.lsm.compaction.inputs import Inputs
from slate_engine.lsm.cuts import cut_keys
from slate_engine.lsm.order import take_bytes
from slate_engine.lsm.table import block_span
from slate_engine.state.views import SstView

ANCHORS = 128
"""So many keys of an SST are enough to divide a job by; its whole index may have a hundred thousand."""

WINDOW_BYTES = 1 << 30
"""Chunks are planned for so many bytes of SSTs at a time, so that the indexes of a huge run are not all held at once."""


AT_ONCE = 16
"""Indexes are asked for so many at a time."""

Weighed: TypeAlias = tuple[Bytes, I64]
"""Keys, and the bytes from each to the next."""


async def plan_ranges(inputs: Inputs, most: int, least_bytes: int) -> list[KeyRange]:
    """At most ``most`` ranges that together are all keys, with about as many bytes to read in each, and not fewer than
    ``least_bytes`` or the largest SST."""
    target = max(inputs.size // most, inputs.largest, least_bytes)
    if most == 1 or target >= inputs.size:
        return [ALL]
    views = list(inputs.views(ALL))
    anchors: list[Weighed] = []
    for start in range(0, len(views), AT_ONCE):
        anchors += await asyncio.gather(*(_anchors(inputs, *each) for each in views[start : start + AT_ONCE]))
    return list(divided(ALL, _cuts(anchors, target)[: most - 1]))


async def plan_chunks(inputs: Inputs, whole: KeyRange, target: int) -> AsyncIterator[KeyRange]:
    """``whole`` in chunks of about ``target`` bytes of rows in memory each."""
    levels = inputs.levels
    windows = cut_keys([level.lower_keys for level in levels], [level.sizes for level in levels], [WINDOW_BYTES])
    for window in divided(whole, windows):
        blocks = await asyncio.gather(*(_blocks(inputs, *each) for each in inputs.views(window)))
        for chunk in divided(window, _cuts(blocks, target)):
            yield chunk


def divided(whole: KeyRange, cuts: Iterable[bytes]) -> Iterator[KeyRange]:
    """``whole`` cut at those of the ascending ``cuts`` that lie in it."""
    inside = [cut for cut in cuts if cut in whole and not (whole.start.bounded and cut == whole.start.key)]
    starts = [whole.start, *(Bound.included(cut) for cut in inside)]
    for start, after in pairwise([*starts, UNBOUNDED]):
        yield KeyRange(start, whole.end if after is UNBOUNDED else Bound.excluded(after.key))


def _cuts(weighed: Sequence[Weighed], target: int) -> list[bytes]:
    filled = [(keys, sizes) for keys, sizes in weighed if len(keys)]
    return cut_keys([keys for keys, _ in filled], [sizes for _, sizes in filled], [target])


async def _blocks(inputs: Inputs, view: SstView, seen: KeyRange) -> Weighed:
    """The separators of the blocks that hold some of ``seen``, and the bytes of each in memory."""
    blocks = await inputs.open_table(view).blocks()
    keys, sizes = _span(blocks, seen)
    return keys, (sizes * await inputs.growth(view)).astype(np.int64)


async def _anchors(inputs: Inputs, view: SstView, seen: KeyRange) -> Weighed:
    """Some of the separators, each with the bytes up to the next."""
    keys, sizes = _span(await inputs.open_table(view).blocks(), seen)
    if len(keys) <= ANCHORS:
        return keys, sizes
    picks = np.linspace(0, len(keys), ANCHORS, endpoint=False).astype(np.int64)
    return take_bytes(keys, picks), np.add.reduceat(sizes, picks)


def _span(blocks: BlockMap, seen: KeyRange) -> Weighed:
    first, last = block_span(blocks, seen)
    return blocks.first_keys.slice(first, last), (blocks.ends - blocks.starts)[first:last]
