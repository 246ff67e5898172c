"""A job being merged: its ranges side by side, each a chunk after another.

While one chunk is merged and built, the next is read and the last is stored. What a range has stored so far is kept in a
form that another worker can go on from, should this one die.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from slate_engine.format.ids import Ulid
from slate_engine.format.key_range import Bound, KeyRange
from slate_engine.lsm.cache import Cache
from slate_engine.lsm.compaction.inputs import Blocks, Inputs, SourcesGone
from slate_engine.lsm.compaction.merge import Mark, merge_chunk
from slate_engine.lsm.compaction.options import MergeOptions
from slate_engine.lsm.compaction.output import Piece, RunBuilder, RunWriter
from slate_engine.lsm.compaction.ranges import plan_chunks, plan_ranges
from slate_engine.lsm.compaction.resources import Resources
from slate_engine.lsm.compaction.specs import repeats_views
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.table import Table
from slate_engine.lsm.tables import Tables
from slate_engine.state.compactions import Compaction, Context, Subcompaction, SubcompactionStatus, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle, Ssts

CHUNKS_AHEAD = 2


class Moved(NamedTuple):
    """What has just been done of a job: bytes of blocks that are merged, bytes of SSTs that are stored."""

    read: int
    written: int


@dataclass
class _Part:
    """A range of the job, and the SSTs of it that are stored."""

    keys: KeyRange
    outputs: list[SstHandle] = field(default_factory=list)
    done: bool = False


class Execution:
    """Merges one job. Made when the job is claimed, from a manifest that was read after that."""

    def __init__(
        self,
        files: DatabaseFiles,
        job: Compaction,
        manifest: Manifest,
        options: MergeOptions,
        resources: Resources,
        moved: Callable[[Moved], None] = lambda moved: None,
    ) -> None:
        if not isinstance(job.spec, TieredSpec):
            raise SourcesGone("a segment is drained by the coordinator itself, without reading it")
        self._files = files
        self._job = job
        self._options = options
        self._resources = resources
        self._moved = moved
        # The cache of the readers is not for this: a compaction sees everything once, but for the indexes.
        self._cache = Cache(0)
        tables = Tables(files.store, files.paths, files.runtime, cache=self._cache, policies=())
        self._inputs = Inputs.of(job.spec, manifest, tables.opener(manifest), files.store)
        self._cache.max_bytes = self._inputs.index_bytes * options.max_subcompactions
        self._rules = self._inputs.rules
        self._parts: list[_Part] = []
        self._named: list[str] = []
        self.input_bytes = self._inputs.size
        self.l0_bytes = self._inputs.l0_size
        self.bytes_read = 0
        self.rows_read = 0
        self.rows_written = 0
        if job.context is not None and job.context.subcompactions:
            self._rules = replace(self._rules, min_seq=job.context.retention_min_seq)
            # Where views share an id, a worker of SlateDB 0.17 may have begun it, and left rows out.
            again = repeats_views(job.spec)
            self._parts = [
                _Part(part.range)
                if again
                else _Part(part.range, list(part.outputs), part.status is SubcompactionStatus.COMPLETED)
                for part in job.context.subcompactions
            ]

    @property
    def context(self) -> Context | None:
        """How far the job is; None before it is planned."""
        if not self._parts:
            return None
        states = {True: SubcompactionStatus.COMPLETED, False: SubcompactionStatus.IN_PROGRESS}
        parts = [Subcompaction(part.keys, Ssts.of(part.outputs), states[part.done]) for part in self._parts]
        return Context(tuple(parts), self._rules.min_seq)

    @property
    def output_bytes(self) -> int:
        return sum(handle.estimated_size for part in self._parts for handle in part.outputs)

    async def run(self) -> Ssts:
        """Merge all that is left to do; gives the SSTs of the new run."""
        if not self._parts:
            most, least = self._options.max_subcompactions, self._options.min_range_bytes
            self._parts = [_Part(keys) for keys in await plan_ranges(self._inputs, most, least)]
        left = [part for part in self._parts if not part.done]
        merging = [asyncio.ensure_future(self._merge(part)) for part in left]
        try:
            await asyncio.gather(*merging)
        finally:
            for task in merging:
                task.cancel()
            await asyncio.gather(*merging, return_exceptions=True)
        return Ssts.of(handle for part in self._parts for handle in part.outputs)

    async def _merge(self, part: _Part) -> None:
        async with self._resources.lanes:
            await self._merge_in_lane(part)
        part.done = True

    async def _merge_in_lane(self, part: _Part) -> None:
        files, options, cores = self._files, self._options, self._resources.cores
        mark = await self._mark(part)
        keys = part.keys if mark is None else KeyRange(Bound.included(mark.key), part.keys.end)
        builder = RunBuilder(options.sst, options.max_sst_size, self._resources.max_rows)
        writer = RunWriter(files.store, self._name, files.runtime, self._job.id.ms, partial(self._stored, part))
        try:
            async with contextlib.aclosing(self._chunks(keys)) as chunks:
                async for blocks in chunks:
                    size = sum(len(part.data) for part in blocks)
                    async with cores:
                        read, kept, pieces = await files.runtime.run(self._merge_chunk, builder, blocks, mark)
                    self._read(size)
                    self.rows_read += read
                    self.rows_written += kept
                    mark = None  # all versions of its key were in the first chunk
                    await writer.write(pieces)
            async with cores:
                last = await files.runtime.run(builder.finish)
            await writer.write(last)
            await writer.finish()
        finally:
            await writer.abandon()

    def _name(self, id: Ulid) -> str:
        key = self._files.paths.compacted(id)
        self._named.append(key)
        return key

    async def discard(self) -> None:
        """Delete all that this execution has stored, or may have: the database is gone."""
        await self._files.store.delete(self._named)

    def _read(self, size: int) -> None:
        self.bytes_read += size
        self._moved(Moved(size, 0))

    def _stored(self, part: _Part, handle: SstHandle) -> None:
        part.outputs.append(handle)
        self._moved(Moved(0, handle.estimated_size))

    async def _chunks(self, keys: KeyRange) -> AsyncGenerator[list[Blocks], None]:
        """What the levels hold of each chunk. The next ones are read while one is worked on."""
        target = self._resources.chunk_bytes(self._inputs.index_bytes)
        reading: deque[asyncio.Task[list[Blocks]]] = deque()
        try:
            async for chunk in plan_chunks(self._inputs, keys, target):
                reading.append(asyncio.ensure_future(self._inputs.read(chunk)))
                if len(reading) > CHUNKS_AHEAD:
                    yield await reading.popleft()
            while reading:
                yield await reading.popleft()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)

    def _merge_chunk(
        self, builder: RunBuilder, blocks: list[Blocks], mark: Mark | None
    ) -> tuple[int, int, list[Piece]]:
        """From stored blocks to stored blocks. Runs in a thread, one at a time for each range: all of it, for then the bytes
        are still in the processor's cache from step to step. Empties ``blocks`` on the way, to have the memory back."""
        if not blocks:
            return 0, 0, []
        blocks.reverse()
        sources = [blocks.pop().rows() for _ in range(len(blocks))]
        read = sum(map(len, sources))
        kept = merge_chunk(sources, self._rules, self._files.operator, mark)
        return read, len(kept), builder.append(kept)

    async def _mark(self, part: _Part) -> Mark | None:
        """Where an earlier attempt at this range ended."""
        if not part.outputs:
            return None
        files, last = self._files, part.outputs[-1]
        table = Table(files.store, files.paths.compacted(last.id), last, self._cache, files.runtime, ())
        blocks = await table.blocks()
        rows = await table.rows(len(blocks) - 1, len(blocks))
        return Mark(rows.keys[-1], int(rows.seq[-1]))
