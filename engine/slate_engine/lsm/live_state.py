"""All that a live database shows, as one frozen value: the manifest's SSTs, and above them the memtables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from slate_engine.lsm.levels import Levels
from slate_engine.lsm.memtable import Memtable
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.table import Table
from slate_engine.lsm.tables import Tables
from slate_engine.lsm.visible import MergeOperator
from slate_engine.runtime import Runtime
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import SstView


@dataclass(frozen=True, eq=False)
class FrozenMemtable:
    """A memtable that takes no more rows. All rows of the WAL up to ``replay_after`` are in it or in older ones."""

    memtable: Memtable
    replay_after: int
    frozen_s: int


@dataclass(frozen=True)
class LiveState:
    """What a read needs, newest first: the memtable that takes rows, those that wait to be flushed, the levels."""

    manifest_id: int
    manifest: Manifest
    levels: Levels
    open_table: Callable[[SstView], Table]
    runtime: Runtime
    active: Memtable
    frozen: tuple[FrozenMemtable, ...] = ()

    @staticmethod
    def of(manifest_id: int, manifest: Manifest, tables: Tables) -> LiveState:
        levels, open_table = Levels(manifest.trees), tables.opener(manifest)
        return LiveState(manifest_id, manifest, levels, open_table, tables.runtime, Memtable())

    @property
    def pending(self) -> FrozenMemtable | None:
        """The oldest memtable that is to be flushed."""
        return self.frozen[-1] if self.frozen else None

    @property
    def unflushed_bytes(self) -> int:
        """The memory that rows take until they are flushed: where they are, and as much again as the SST that is being made
        of the oldest ones will have."""
        in_flush = self.frozen[-1].memtable.payload_bytes if self.frozen else 0
        return self.active.memory_bytes + sum(frozen.memtable.memory_bytes for frozen in self.frozen) + in_flush

    @property
    def replay_after(self) -> int:
        """The last WAL file that need not be replayed once the newest of the frozen memtables is in level 0."""
        return self.frozen[0].replay_after if self.frozen else self.manifest.replay_after_wal_id

    def frozen_now(self, replay_after: int, now_s: int) -> LiveState:
        """The same with an empty memtable to write to, and the former one waiting to be flushed."""
        self.active.settle()
        return replace(self, active=Memtable(), frozen=(FrozenMemtable(self.active, replay_after, now_s), *self.frozen))

    def under(self, manifest_id: int, manifest: Manifest, tables: Tables) -> LiveState:
        """The same with a newer manifest. What it has in level 0 leaves the memory in the same step: rows that are in both
        would count twice where they are merged."""
        kept = tuple(each for each in self.frozen if each.memtable.last_seq > manifest.last_l0_seq)
        return replace(LiveState.of(manifest_id, manifest, tables), active=self.active, frozen=kept)

    def snapshot(self, seq: int, operator: MergeOperator | None) -> Snapshot:
        """What is seen at a sequence number."""
        memory = (self.active, *(frozen.memtable for frozen in self.frozen))
        return Snapshot(memory, self.levels, self.open_table, seq, operator, runtime=self.runtime)
