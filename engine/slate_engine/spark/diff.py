"""What changed between two states of a database: net inserts, updates and deletes.

Compactions move rows to other SSTs and leave most SSTs alone, so only the SSTs that one state has and the other has not
are read through. A key whose newest version in them is the same on both sides was merely moved; a compaction may make a
tombstone of a row whose time is over, under the same sequence number, and drop merge operands below the newest. For the
others, the SSTs that both states share are asked for these keys alone: by their filters and for single blocks.

A diff sees the two ends and nothing between: a key that was written three times changed once, and one that came and went
did not change. Writing a value again is an update, because its sequence number tells; a row whose time is over is a delete
from the compaction on that dropped it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from slate_engine.format.arrow import record_batch
from slate_engine.format.columns import EMPTY, HAS_EXPIRE, I64, MERGE, TOMBSTONE, Bytes, Rows
from slate_engine.format.key_range import KeyRange
from slate_engine.format.sst_meta import Codec
from slate_engine.lsm.levels import Levels
from slate_engine.lsm.order import first_of_key, take, take_bytes
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.table import Table, cut
from slate_engine.lsm.visible import merge_sources, visible
from slate_engine.spark.heap import keep_memory
from slate_engine.spark.lookup import binary, look_up, only
from slate_engine.spark.planning import plan, rows_within, weigh
from slate_engine.spark.ranges import Ranges
from slate_engine.spark.reading import (
    COPIES,
    EXPANSION,
    FEWEST_BYTES,
    Output,
    State,
    manifest_of,
    opened,
    pieces,
    pulled,
    still_kept,
)
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import SortedRun, Tree, Trees
from slate_engine.state.views import SstView, Views

INSERT, UPDATE, DELETE = range(3)
NAMES = pa.array(["insert", "update", "delete"])

SETTLED = TOMBSTONE | MERGE | HAS_EXPIRE
"""The flags that two versions have in common if a compaction has but moved the one to the place of the other."""


@dataclass
class DiffShare(InputPartition):
    """The keys of one task, the two states, and what their logs hold of these keys."""

    before: State
    after: State
    ranges: Ranges
    before_tail: Rows
    after_tail: Rows


@dataclass(frozen=True)
class Side:
    """One of the two states: its manifest and the rows of its log."""

    manifest: Manifest
    tail: Rows
    max_seq: int


async def plan_diff(
    files: DatabaseFiles, before: tuple[State, Side], after: tuple[State, Side], wanted: Ranges, target: int
) -> list[InputPartition]:
    """Shares of about ``target`` bytes of what differs; the rest of the database does not count."""
    differing = Differing(files, before[1], after[1])
    shares = plan(await weigh(differing.snapshot, wanted, target), wanted, target)
    return [
        DiffShare(
            before[0],
            after[0],
            share.ranges,
            rows_within(before[1].tail, share.ranges),
            rows_within(after[1].tail, share.ranges),
        )
        for share in shares
    ]


def read_diff(share: DiffShare, output: Output, memory: int) -> Iterator[pa.RecordBatch]:
    """The changes of a share. ``memory`` bounds, roughly, what is held at once."""
    keep_memory(memory)
    return pulled(_batches(share, output, memory))


async def _batches(share: DiffShare, output: Output, memory: int) -> AsyncGenerator[pa.RecordBatch, None]:
    async with opened(share.before.location, share.before.merge_operator) as files, still_kept():
        before = await _side(files, share.before, share.before_tail)
        after = await _side(files, share.after, share.after_tail)
        differing = Differing(files, before, after)
        target = max(memory // (4 * COPIES), FEWEST_BYTES)
        for part in plan(await weigh(differing.snapshot, share.ranges, target), share.ranges, target):
            for wanted in part.ranges:
                async with aclosing(differing.changes(wanted, output, target)) as batches:
                    async for batch in batches:
                        yield batch


async def _side(files: DatabaseFiles, state: State, tail: Rows) -> Side:
    return Side(await manifest_of(files, state.manifest_id, state.life), tail, state.max_seq)


class Differing:
    """What one state has and the other has not, and what both share."""

    def __init__(self, files: DatabaseFiles, before: Side, after: Side) -> None:
        self._files = files
        self._sides = before, after
        self._openers = [files.tables.opener(side.manifest) for side in self._sides]
        self._levels = [Levels(side.manifest.trees) for side in self._sides]
        shown = [{_identity(view) for views in _views(side.manifest) for view in views} for side in self._sides]
        self._shared = shown[0] & shown[1]
        levels = Levels(Trees(_joined([self._own(side.manifest) for side in self._sides])))
        self.snapshot = Snapshot((), levels, self._open)
        """The SSTs of either side that the other has not, as far as planning needs them."""
        self._of_before = set(before.manifest.ssts.id)

    def _own(self, manifest: Manifest) -> Tree:
        l0, runs = [], []
        for tree in manifest.trees:
            l0 += [view for view in tree.l0 if _identity(view) not in self._shared]
            for run in tree.runs:
                kept = [view for view in run.views if _identity(view) not in self._shared]
                runs.append(SortedRun(run.id, Views.of(kept)))
        return Tree(Views.of(l0), tuple(run for run in runs if len(run.views)))

    def _open(self, view: SstView) -> Table:
        return self._openers[0 if view.sst.id in self._of_before else 1](view)

    async def changes(self, wanted: KeyRange, output: Output, most_bytes: int) -> AsyncGenerator[pa.RecordBatch, None]:
        """The changes of the keys in ``wanted``. Of what both sides share, about ``most_bytes`` are read at a time."""
        views = [self._views_in(levels, wanted) for levels in self._levels]
        own = [[view for view in side if _identity(view) not in self._shared] for side in views]
        read = await asyncio.gather(*(self._rows(view, wanted) for side in own for view in side))
        rows = dict(zip([_identity(view) for side in own for view in side], read, strict=True))
        tails = [cut(side.tail, wanted) for side in self._sides]
        newest = [
            _newest([tail, *(rows[_identity(view)] for view in side)]) for tail, side in zip(tails, own, strict=True)
        ]
        keys = _keys_that_differ(*newest)
        del newest, read
        rows = {id: only(each, keys) for id, each in rows.items()}
        tails = [only(tail, keys) for tail in tails]
        shared = {_identity(view): view for side in views for view in side if _identity(view) in self._shared}
        compressed = any(view.sst.info.codec is not Codec.NONE for view in shared.values())
        most = most_bytes // EXPANSION if compressed else most_bytes
        async for some, found in look_up(keys, list(shared.values()), self._open, most):
            hull = KeyRange.closed(some[0].as_py(), some[-1].as_py())
            here = {id: cut(each, hull) for id, each in rows.items()} | dict(zip(shared, found, strict=True))
            seen = [
                visible(
                    [cut(tail, hull), *(here[_identity(view)] for view in in_order)],
                    side.max_seq,
                    self._files.operator,
                )
                for side, tail, in_order in zip(self._sides, tails, views, strict=True)
            ]
            for batch in _batches_of(seen[0], seen[1], output):
                yield batch

    def _views_in(self, levels: Levels, wanted: KeyRange) -> list[SstView]:
        """From the newest level to the oldest."""
        return [view for level in levels.overlapping(wanted) for view in level.overlapping(wanted)]

    async def _rows(self, view: SstView, wanted: KeyRange) -> Rows:
        seen = wanted if view.visible_range is None else view.visible_range.intersect(wanted)
        return EMPTY if seen is None else await self._open(view).rows_in(seen)


def _identity(view: SstView) -> tuple[object, ...]:
    """Two views of the same SST that show the same keys are the same rows, wherever they stand."""
    return view.sst.id, view.visible_range


def _views(manifest: Manifest) -> Iterator[Views]:
    for tree in manifest.trees:
        yield from tree.views()


def _joined(trees: Sequence[Tree]) -> Tree:
    return Tree(Views.concat([tree.l0 for tree in trees]), tuple(run for tree in trees for run in tree.runs))


def _newest(sources: Sequence[Rows]) -> Rows:
    """The newest version of each key, tombstones and all."""
    filled = [each for each in sources if len(each)]
    if not filled:
        return EMPTY
    rows, order = merge_sources(filled)
    return take(rows, order[first_of_key(rows.keys, order) != 0])


def _keys_that_differ(before: Rows, after: Rows) -> pa.Array:
    """The keys whose newest versions are not the same one, in ascending order."""
    matched = match(before.keys, after.keys)
    moved = _alike(before, after, matched.both)
    gone_or_changed = np.sort(np.concatenate([matched.only_before, matched.both[0][~moved]]))
    differing = _newest([take(before, gone_or_changed), take(after, matched.only_after)])
    return binary(differing.keys)


def _alike(before: Rows, after: Rows, both: tuple[I64, I64]) -> npt.NDArray[np.bool_]:
    """Whether the versions at these places are the same one, and show the same whatever lies below them."""
    here, there = both
    flags = before.flags[here] & SETTLED
    same = before.seq[here] == after.seq[there]
    same &= flags == after.flags[there] & SETTLED
    same &= before.expire_ts[here] == after.expire_ts[there]
    alike: npt.NDArray[np.bool_] = same & (flags & MERGE == 0)
    return alike


@dataclass(frozen=True)
class Matched:
    """Which rows of two batches have the same key, by their places."""

    only_before: I64
    only_after: I64
    both: tuple[I64, I64]


def match(before: Bytes, after: Bytes) -> Matched:
    """``before`` and ``after`` are in strictly ascending order."""
    index = pc.index_in(binary(before), value_set=binary(after))
    found = np.asarray(index.fill_null(-1)).astype(np.int64)
    here = np.flatnonzero(found >= 0)
    lonely = np.ones(len(after), bool)
    lonely[found[here]] = False
    return Matched(np.flatnonzero(found < 0), np.flatnonzero(lonely), (here, found[here]))


def _batches_of(before: Rows, after: Rows, output: Output) -> list[pa.RecordBatch]:
    """The changes from one set of visible rows to another, in the order of keys."""
    matched = match(before.keys, after.keys)
    same = _unchanged(before, after, matched.both)
    old_place = np.full(len(after), -1, np.int64)
    old_place[matched.both[1]] = matched.both[0]
    differs = np.ones(len(after), bool)
    differs[matched.both[1][same]] = False
    written = np.flatnonzero(differs)
    sources = [rows for rows in (take(before, matched.only_before), take(after, written)) if len(rows)]
    if not sources:
        return []
    rows, order = merge_sources(sources)
    olds = np.concatenate([matched.only_before, old_place[written]])
    kinds = np.where(olds < 0, INSERT, UPDATE)
    kinds[: len(matched.only_before)] = DELETE
    batches, start = [], 0
    for piece in pieces(take(rows, order)):
        part = order[start : start + len(piece)]
        batches.append(_batch(piece, before, olds[part], kinds[part], output))
        start += len(piece)
    return batches


def _unchanged(before: Rows, after: Rows, both: tuple[I64, I64]) -> npt.NDArray[np.bool_]:
    """Whether rows of the same keys are the same. Where operands were folded, the number is that of the newest of them, and
    the value tells whether one below it has gone."""
    here, there = both
    same = (before.seq[here] == after.seq[there]) & (before.expire_ts[here] == after.expire_ts[there])
    values = pc.equal(binary(take_bytes(before.values, here)), binary(take_bytes(after.values, there)))
    unchanged: npt.NDArray[np.bool_] = same & np.asarray(values)
    return unchanged


def _batch(rows: Rows, before: Rows, olds: I64, kinds: I64, output: Output) -> pa.RecordBatch:
    """``rows`` as they are now or, where they are deleted, as they were."""
    now = record_batch(rows, ("key", "value", "seq", "create_ts", "expire_ts"), large=False)
    was = record_batch(take(before, np.maximum(olds, 0)), ("value", "seq"), large=False) if len(before) else now
    deleted, is_new = kinds == DELETE, olds < 0
    arrays = {
        "change": NAMES.take(pa.array(kinds)),
        "key": now["key"],
        "value": _without(now["value"], deleted),
        "old_value": _without(was["value"], is_new),
        "seq": _without(now["seq"], deleted),
        "old_seq": _without(was["seq"], is_new),
        "create_ts": _without(now["create_ts"], deleted),
        "expire_ts": _without(now["expire_ts"], deleted),
    }
    return output.finished({name: arrays[name] for name in output.columns})


def _without(column: pa.Array, absent: npt.NDArray[np.bool_]) -> pa.Array:
    return pc.if_else(pa.array(absent), pa.scalar(None, column.type), column)
