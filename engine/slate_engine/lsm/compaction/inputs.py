"""What a job reads: the levels that it merges, opened, and by which rules their rows are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from slate_engine.errors import InvalidError
from slate_engine.format.blocks import decode_blocks
from slate_engine.format.columns import I64, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import KeyRange
from slate_engine.format.sst import data_end
from slate_engine.format.sst_meta import Codec, SstStats
from slate_engine.lsm.compaction.result import oldest_l0
from slate_engine.lsm.compaction.specs import flaw_of_repeats, is_deepest
from slate_engine.lsm.levels import Level
from slate_engine.lsm.table import MissingSst, Table, block_span, cut
from slate_engine.state.compactions import TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.views import SstView
from slate_engine.store.protocol import Buffer, NotFound, ObjectStore

ROW_BYTES = 41
"""What a decoded row takes beside its key and value: sequence number, flags, two times, two offsets."""

_GUESS = 4.0
"""How much a compressed SST is taken to grow if it does not say."""


class SourcesGone(InvalidError):
    """The manifest has not, or not in this order, what a job is to merge: it was planned on a state that is past, or by a
    coordinator that takes one of several views with the same id."""


@dataclass(frozen=True)
class Rules:
    """Which versions are still needed, as the manifest said when the job was claimed."""

    min_seq: int
    """Somebody may read at this sequence number, or above it."""
    now_ms: int
    """The database's own clock, by which rows expire."""
    deepest: bool
    """Nothing older lies below the result."""


@dataclass(frozen=True)
class Blocks:
    """Neighbouring blocks of an SST as they are stored, and which of their keys are wanted."""

    object: str
    sst: SstHandle
    data: Buffer
    starts: I64
    ends: I64
    keys: KeyRange

    def rows(self) -> Rows:
        """Decoded: this is work for a thread."""
        rows = decode_blocks(
            self.data,
            self.starts,
            self.ends,
            version=self.sst.format_version,
            codec=self.sst.info.codec,
            object=self.object,
            base=int(self.starts[0]),
        )
        return cut(rows, self.keys)


@dataclass
class Inputs:
    """The levels of a job, newest first."""

    levels: list[Level]
    rules: Rules
    l0: int
    """How many of the levels, the first ones, are SSTs of L0."""
    open_table: Callable[[SstView], Table]
    store: ObjectStore
    _growth: dict[Ulid, float] = field(default_factory=dict)

    @staticmethod
    def of(spec: TieredSpec, manifest: Manifest, open_table: Callable[[SstView], Table], store: ObjectStore) -> Inputs:
        """What ``spec`` names, in a manifest that was read after the job was claimed."""
        tree = manifest.trees.tree(spec.segment)
        runs = [] if tree is None else [run for run in tree.runs if run.id in spec.sorted_runs]
        if tree is None or tuple(run.id for run in runs) != spec.sorted_runs:
            raise SourcesGone(f"the runs {spec.sorted_runs} are not in the manifest any more")
        l0 = oldest_l0(tree, spec) if len(tree.l0) >= len(spec.l0_views) else None
        if l0 is None or tuple(l0.ids) != spec.l0_views:
            raise SourcesGone("the SSTs of L0 that are to be compacted are not the oldest ones in the manifest")
        if (flaw := flaw_of_repeats(tree, spec)) is not None:
            raise SourcesGone(flaw)
        levels = [Level(l0[i : i + 1]) for i in range(len(l0))]
        levels += [Level(run.views) for run in runs if len(run.views)]
        rules = Rules(manifest.recent_snapshot_min_seq, manifest.last_l0_clock_tick, is_deepest(spec, tree))
        return Inputs(levels, rules, len(l0), open_table, store)

    @property
    def size(self) -> int:
        """Estimated bytes of all SSTs."""
        return sum(int(level.sizes.sum()) for level in self.levels)

    @property
    def l0_size(self) -> int:
        """That of them which no compaction has written yet."""
        return sum(int(level.sizes.sum()) for level in self.levels[: self.l0])

    @property
    def largest(self) -> int:
        return max((int(level.sizes.max()) for level in self.levels), default=0)

    @property
    def index_bytes(self) -> int:
        """About what the block indexes take that are needed for one place of the key space."""
        return sum(2 * int(level.views.ssts().index_len.max()) for level in self.levels)

    def views(self, keys: KeyRange) -> Iterator[tuple[SstView, KeyRange]]:
        """The views that may show some of ``keys``, newest level first, and which of the keys each can show."""
        for level in self.levels:
            for view in level.overlapping(keys):
                seen = keys if view.visible_range is None else keys.intersect(view.visible_range)
                if seen is not None:
                    yield view, seen

    async def read(self, keys: KeyRange) -> list[Blocks]:
        """What each view holds of ``keys``, newest first. In a run, the view with the smaller keys comes first, and has the
        newer versions of a key that it shares with the next."""
        found = await asyncio.gather(*(self._read(self.open_table(view), seen) for view, seen in self.views(keys)))
        return [blocks for blocks in found if blocks is not None]

    async def _read(self, table: Table, keys: KeyRange) -> Blocks | None:
        blocks = await table.blocks()
        first, last = block_span(blocks, keys)
        if first >= last:
            return None
        starts, ends = blocks.starts[first:last], blocks.ends[first:last]
        try:
            (data,) = await self.store.get_ranges(table.key, [(int(starts[0]), int(ends[-1]))])
        except NotFound:
            raise MissingSst(table.key) from None
        return Blocks(table.key, table.handle, data, starts, ends, keys)

    async def growth(self, view: SstView) -> float:
        """How many bytes in memory a byte of this SST comes to."""
        known = self._growth.get(view.sst.id)
        if known is None:
            known = self._growth[view.sst.id] = _growth(view.sst, await self.open_table(view).stats())
        return known


def _growth(sst: SstHandle, stats: SstStats | None) -> float:
    if stats is None:
        return 1.0 if sst.info.codec is Codec.NONE else _GUESS
    rows = stats.num_puts + stats.num_deletes + stats.num_merges
    return (stats.raw_key_size + stats.raw_val_size + ROW_BYTES * rows) / max(data_end(sst.info), 1)
