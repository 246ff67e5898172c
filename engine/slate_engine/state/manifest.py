"""The manifest: the whole state of a database that readers need, as one frozen value.

A change is a function from one :class:`Manifest` to the next (``dataclasses.replace`` and the methods of its parts);
``ManifestStore`` commits it. Millions of rows of the trees stay in columns; see ``tree`` and ``views``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from uuid import UUID

import numpy as np

from slate_engine.format.columns import I64
from slate_engine.format.ids import Ids
from slate_engine.state.ssts import Ssts
from slate_engine.state.tracker import EMPTY_TRACKER, SequenceTracker
from slate_engine.state.tree import Segment, Tree, Trees

NO_CLOCK_TICK = -(2**63)
"""``last_l0_clock_tick`` before anything has reached level 0."""

THIS_MANIFEST = 0
"""The ``manifest_id`` of a checkpoint that keeps the manifest in which it first stands. No manifest has this number: the
real one is known, and filled in, when the manifest is committed."""


FOR_CLONE = "clone "
"""How the name of a checkpoint begins by which a parent keeps SSTs for a clone; the clone's path follows."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Keeps the manifest ``manifest_id``, and all that it references, from garbage collection."""

    id: UUID
    manifest_id: int
    expire_time_s: int | None
    create_time_s: int
    name: str | None = None
    writer_epoch: int | None = None
    """Whose it is, if a writer made it for itself. RFC-0004 has such, and the schema a place for them; the writers of today
    make none, but a database that has some is fenced with them in mind."""

    def is_expired(self, now_s: float) -> bool:
        return self.expire_time_s is not None and self.expire_time_s <= now_s

    @property
    def clone(self) -> str | None:
        """The path of the clone for which this checkpoint keeps SSTs, as its name says."""
        name = self.name or ""
        return name.removeprefix(FOR_CLONE) if name.startswith(FOR_CLONE) else None


@dataclass(frozen=True, slots=True)
class ExternalDb:
    """Another database in the same store, of whose SSTs these are read in place. It keeps them by a checkpoint: first by
    ``source_checkpoint_id``, and by ``final_checkpoint_id`` once the clone stands."""

    path: str
    source_checkpoint_id: UUID
    final_checkpoint_id: UUID | None
    sst_ids: Ids


@dataclass(frozen=True)
class Manifest:
    """What version 2 of the manifest holds. Its number is not part of it: that is the name of its file."""

    initialized: bool = True
    writer_epoch: int = 0
    compactor_epoch: int = 0
    replay_after_wal_id: int = 0
    wal_id_last_seen: int = 0
    trees: Trees = field(default_factory=Trees)
    last_l0_clock_tick: int = NO_CLOCK_TICK
    last_l0_seq: int = 0
    recent_snapshot_min_seq: int = 0
    checkpoints: tuple[Checkpoint, ...] = ()
    external_dbs: tuple[ExternalDb, ...] = ()
    sequence_tracker: SequenceTracker = field(default_factory=lambda: EMPTY_TRACKER)
    segment_extractor_name: str | None = None
    wal_object_store_uri: str | None = None
    """Only manifests of version 1 have it; it is not written."""

    @property
    def root(self) -> Tree:
        return self.trees.root

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.trees.segments

    @property
    def next_wal_id(self) -> int:
        return self.wal_id_last_seen + 1

    @property
    def needed_wal_ids(self) -> range:
        """The WAL files that hold rows of this state which may be in no SST. There may be newer ones."""
        return range(self.replay_after_wal_id + 1, self.wal_id_last_seen + 1)

    @property
    def ssts(self) -> Ssts:
        """Every SST that the trees show, once, in ascending order of ids: ``set(manifest.ssts.id)`` is what must live."""
        return self.trees.ssts

    @property
    def estimated_size(self) -> int:
        return int(self.ssts.sizes.sum())

    def checkpoint(self, id: UUID) -> Checkpoint | None:
        return next((checkpoint for checkpoint in self.checkpoints if checkpoint.id == id), None)

    @cached_property
    def owners(self) -> I64:
        """For each row of ``ssts``, which of ``external_dbs`` holds the file; -1 for this database itself."""
        owners = np.full(len(self.ssts), -1, np.int64)
        # Where two list the same SST, the later one counts, as upstream has it.
        for place, external in enumerate(self.external_dbs):
            rows = self.ssts.id.find(external.sst_ids)
            owners[rows[rows >= 0]] = place
        return owners

    def numbered(self, id: int) -> Manifest:
        """The same for manifest ``id``: checkpoints of :data:`THIS_MANIFEST` get this number."""
        if all(checkpoint.manifest_id != THIS_MANIFEST for checkpoint in self.checkpoints):
            return self
        return replace(
            self,
            checkpoints=tuple(
                replace(each, manifest_id=id) if each.manifest_id == THIS_MANIFEST else each
                for each in self.checkpoints
            ),
        )

    def with_root(self, tree: Tree) -> Manifest:
        return replace(self, trees=replace(self.trees, root=tree))

    def with_tree(self, prefix: bytes, tree: Tree) -> Manifest:
        """The same with this tree for a segment, or for the root if the prefix is empty."""
        return replace(self, trees=self.trees.with_tree(prefix, tree))

    def with_external_ids_pruned(self) -> Manifest:
        """Drop from ``external_dbs`` the ids of SSTs that no view shows any more. Entries stay, even if empty: they are
        what detaches the clone from its parent."""
        if not self.external_dbs:
            return self
        return replace(self, external_dbs=tuple(_pruned(self.external_dbs, self.ssts)))


def _pruned(external_dbs: Iterable[ExternalDb], ssts: Ssts) -> Iterable[ExternalDb]:
    for external in external_dbs:
        kept = np.flatnonzero(ssts.id.find(external.sst_ids) >= 0)
        yield external if len(kept) == len(external.sst_ids) else replace(external, sst_ids=external.sst_ids.take(kept))
