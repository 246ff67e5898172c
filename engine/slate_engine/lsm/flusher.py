"""Turns full memtables into SSTs of level 0, the oldest first, and commits them to the manifest.

The manifest changes by adding the new SSTs to whatever it holds at that moment, so what compactors did meanwhile stays. A
flush that finds a newer writer's epoch there ends the writer instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import numpy as np

from slate_engine.errors import ClosedError, CloseReason, Error, UnavailableError
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import BuiltSst, SstOptions, build_sst
from slate_engine.lsm.memtable import Memtable
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.retain import retain
from slate_engine.lsm.segments import Segments
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.commit import Contended
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.protocol import StoreUnavailable

T = TypeVar("T")

log = logging.getLogger(__name__)

LONGEST_PAUSE = 5.0


@dataclass(frozen=True, eq=False)
class FrozenMemtable:
    """A memtable that takes no more rows. All rows of the WAL up to ``replay_after`` are in it or in older ones."""

    memtable: Memtable
    replay_after: int
    frozen_s: int


class Owner(Protocol):
    """The writer, as far as flushing needs it."""

    @property
    def pending(self) -> FrozenMemtable | None:
        """The oldest memtable that is to be flushed."""
        ...

    @property
    def l0_count(self) -> int:
        """The number of SSTs in the largest level 0."""
        ...

    @property
    def segments(self) -> Segments: ...

    @property
    def last_wal_id(self) -> int: ...

    @property
    def durable_seq(self) -> int: ...

    def retained_seq(self, otherwise: int) -> int: ...

    def check_epoch(self, manifest: Manifest) -> None: ...

    def adopt(self, manifest_id: int, manifest: Manifest) -> None: ...

    def stop(self, error: Error) -> None: ...

    async def until(self, condition: Callable[[], bool]) -> None: ...


class Flusher:
    """Works beside the writer until it is stopped."""

    def __init__(self, owner: Owner, files: DatabaseFiles, options: WriterOptions) -> None:
        self._owner = owner
        self._files = files
        self._options = options
        self._runtime = files.runtime
        self.trouble: UnavailableError | None = None
        self.memtables_flushed = 0
        self.bytes_flushed = 0
        self._task = asyncio.ensure_future(self._run())

    def stop(self) -> None:
        self._task.cancel()

    async def close(self) -> None:
        self.stop()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        owner = self._owner
        try:
            while True:
                await owner.until(lambda: owner.pending is not None and owner.l0_count < self._options.l0_max_ssts)
                assert owner.pending is not None
                await self._flush(owner.pending)
        except Error as error:
            owner.stop(error)
        except Exception as defect:
            log.exception("flushing a memtable failed")
            owner.stop(ClosedError(f"the flusher broke down: {defect!r}", CloseReason.PANIC))

    async def _flush(self, frozen: FrozenMemtable) -> None:
        owner = self._owner
        min_seq = owner.retained_seq(min(owner.durable_seq, frozen.memtable.last_seq))
        built = await self._runtime.run(_build, frozen.memtable, min_seq, owner.segments, self._options.sst)
        stored = await self._patiently(lambda: self._upload(built))
        committed = await self._patiently(
            lambda: self._files.manifests.update(lambda old: self._added(old, frozen, stored))
        )
        self.memtables_flushed += 1
        self.bytes_flushed += sum(sst.size for _, sst in built)
        owner.adopt(committed.id, committed.value)

    async def _patiently(self, attempt: Callable[[], Awaitable[T]]) -> T:
        """Try until the store answers and others let us through: the rows are kept in memory until then."""
        while True:
            try:
                result = await attempt()
                self.trouble = None
                return result
            except (StoreUnavailable, Contended) as trouble:
                if self.trouble is None:
                    log.warning("a memtable cannot be flushed, trying again: %s", trouble)
                self.trouble = trouble
            await self._runtime.sleep(self._runtime.uniform(LONGEST_PAUSE / 2, LONGEST_PAUSE))

    async def _upload(self, built: list[tuple[bytes, BuiltSst]]) -> list[tuple[bytes, SstHandle]]:
        newest = await self._files.manifests.read_latest()
        # A garbage collector takes an SST for an orphan if its id is older than the newest one in level 0.
        watermark = newest.value.trees.newest_l0_ms or 0
        handles = [
            (prefix, SstHandle(Ulid.new(self._runtime, watermark), sst.info, sst.version)) for prefix, sst in built
        ]
        for (_, handle), (_, sst) in zip(handles, built, strict=True):
            await self._files.store.put(self._files.paths.compacted(handle.id), sst.tobytes())
        return handles

    def _added(self, old: Manifest, frozen: FrozenMemtable, stored: list[tuple[bytes, SstHandle]]) -> Manifest:
        owner, memtable = self._owner, frozen.memtable
        owner.check_epoch(old)
        if old.last_l0_seq >= memtable.last_seq:
            return old  # an earlier attempt was carried out, although its answer was lost
        trees = old.trees
        for prefix, handle in stored:
            tree = trees.tree(prefix) or Tree()
            trees = trees.with_tree(prefix, tree.with_l0(Views.of([SstView(handle.id, handle)])))
        return replace(
            old,
            trees=trees,
            replay_after_wal_id=max(old.replay_after_wal_id, frozen.replay_after),
            wal_id_last_seen=max(old.wal_id_last_seen, owner.last_wal_id),
            last_l0_seq=memtable.last_seq,
            last_l0_clock_tick=max(old.last_l0_clock_tick, memtable.max_create_ts),
            recent_snapshot_min_seq=owner.retained_seq(memtable.last_seq),
            sequence_tracker=old.sequence_tracker.record(memtable.last_seq, frozen.frozen_s),
        )


def _build(memtable: Memtable, min_seq: int, segments: Segments, options: SstOptions) -> list[tuple[bytes, BuiltSst]]:
    """One SST for each segment that the memtable has rows of."""
    rows = memtable.rows()
    needed = retain(rows, np.arange(len(rows)), min_seq=min_seq, now_ms=memtable.max_create_ts, deepest=False)
    return [(prefix, build_sst(part, options)) for prefix, part in segments.split(needed)]
