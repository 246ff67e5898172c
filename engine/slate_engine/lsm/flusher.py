"""Turns full memtables into SSTs of level 0, the oldest first, and commits them to the manifest.

The manifest changes by adding the new SSTs to whatever it holds at that moment, so what compactors did meanwhile stays. A
flush that finds a newer writer's epoch there ends the writer instead.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, Protocol

import numpy as np

from slate_engine.errors import ClosedError, CloseReason, DatabaseDeleted, Error
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import Chunk, SstBuilder, SstOptions
from slate_engine.format.sst_meta import SstInfo
from slate_engine.lsm.heap import give_back, share_arenas
from slate_engine.lsm.live_state import FrozenMemtable
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.memtable import Memtable
from slate_engine.lsm.outage import Outage
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.retain import retain
from slate_engine.lsm.segments import Segments
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.tree import Tree
from slate_engine.state.views import SstView, Views

log = logging.getLogger(__name__)


class Owner(Protocol):
    """The writer, as far as flushing needs it."""

    @property
    def pending(self) -> FrozenMemtable | None: ...

    @property
    def has_l0_room(self) -> bool: ...

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
        self.outage = Outage(files.runtime, "flushing a memtable")
        self.memtables_flushed = 0
        self.bytes_flushed = 0
        self._under_way: list[str] = []
        """What the present flush has stored, or may have."""
        share_arenas()
        self._task = asyncio.ensure_future(self._run())

    def stop(self, error: Error | None = None) -> None:
        # An upload that is cancelled may still be carried out. Where the database was deleted it is waited for instead, and
        # what it stored is deleted.
        if not (self._under_way and isinstance(error, DatabaseDeleted)):
            self._task.cancel()

    async def close(self) -> None:
        self.stop()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        owner, loop = self._owner, Loop("flushing memtables", self._runtime)
        try:
            with loop.running():
                while True:
                    await loop.rest(owner.until(lambda: owner.pending is not None and owner.has_l0_room))
                    assert owner.pending is not None
                    size = await self._flush(owner.pending)
                    await self._runtime.run(give_back, size)
        except Error as error:
            owner.stop(error)
        except Exception as defect:
            log.exception("flushing a memtable failed")
            owner.stop(ClosedError(f"the flusher broke down: {defect!r}", CloseReason.PANIC))

    async def _flush(self, frozen: FrozenMemtable) -> int:
        """Gives how many bytes that came to."""
        owner = self._owner
        min_seq = owner.retained_seq(min(owner.durable_seq, frozen.memtable.last_seq))
        built = await self._runtime.run(_build, frozen.memtable, min_seq, owner.segments, self._options.sst)
        try:
            stored = await self.outage.outlast(lambda: self._upload(built))
            committed = await self.outage.outlast(
                lambda: self._files.manifests.update(lambda old: self._added(old, frozen, stored))
            )
        except DatabaseDeleted:
            await self._files.store.delete(self._under_way)
            raise
        self._under_way = []
        self.memtables_flushed += 1
        size = sum(len(sst.data) for sst in built)
        self.bytes_flushed += size
        owner.adopt(committed.id, committed.value)
        return size

    async def _upload(self, built: list[_Built]) -> list[tuple[bytes, SstHandle]]:
        newest = await self._files.manifests.read_latest()
        # A garbage collector takes an SST for an orphan if its id is older than the newest one in level 0.
        watermark = newest.value.trees.newest_l0_ms or 0
        handles = [SstHandle(Ulid.new(self._runtime, watermark), sst.info, sst.version) for sst in built]
        for handle, sst in zip(handles, built, strict=True):
            self._under_way.append(key := self._files.paths.compacted(handle.id))
            await self._files.store.put(key, sst.data)
        return [(sst.prefix, handle) for handle, sst in zip(handles, built, strict=True)]

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


class _Built(NamedTuple):
    """An SST of one segment."""

    prefix: bytes
    info: SstInfo
    version: int
    data: bytearray


def _build(memtable: Memtable, min_seq: int, segments: Segments, options: SstOptions) -> list[_Built]:
    """One SST for each segment that the memtable has rows of. The rows are in memory already, so as little as can be of
    them is copied at a time."""
    builders: dict[bytes, tuple[SstBuilder, bytearray]] = {}
    for rows in memtable.pieces():
        everything = np.arange(len(rows))
        needed = retain(rows, everything, min_seq=min_seq, now_ms=memtable.max_create_ts, deepest=False)
        if not len(needed):
            continue  # operands that have expired are not even worth a tombstone
        for prefix, part in segments.split(needed):
            builder, data = builders.setdefault(prefix, (SstBuilder(options), bytearray()))
            builder.append(part)
            _move(builder.take(), data)
    built = []
    for prefix, (builder, data) in builders.items():
        finished = builder.finish()
        _move(finished.chunks, data)
        built.append(_Built(prefix, finished.info, finished.version, data))
    return built


def _move(chunks: list[Chunk], data: bytearray) -> None:
    for chunk in chunks:
        data += chunk
