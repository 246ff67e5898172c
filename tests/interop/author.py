"""Writes whole databases with our encoders alone, one protocol step after another, the way SlateDB's processes would.

An :class:`Author` is a writer, a compactor, a garbage collector and an administrator in one, without concurrency: each
method leaves a complete database behind and publishes one manifest (or a few). It keeps a model of what must be read from
the newest state and from every checkpoint.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from slate_engine.format.columns import Rows
from slate_engine.format.filters import Point
from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.format.sst_build import build_sst
from slate_engine.format.wal import FENCE, build_wal_sst
from slate_engine.lsm.paths import Paths
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, TieredSpec
from slate_engine.state.compactions_write import encode_compactions
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.manifest_write import encode_manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.protocol import CREATE, ObjectStore
from tests.interop.history import Commit, Model, Operation, Version, sorted_versions
from tests.interop.layout import pieces, projected, retained, without_stats
from tests.interop.style import Chance, Style


@dataclass
class Author:
    """Writes the database at ``path``."""

    store: ObjectStore
    path: str
    style: Style = field(default_factory=Style)
    chance: Chance = field(default_factory=Chance)
    model: Model = field(default_factory=Model)
    checkpoints: dict[str, Model] = field(default_factory=dict)
    """What every named checkpoint keeps."""
    manifest: Manifest = field(init=False)
    manifest_id: int = 0
    compactions: Compactions | None = None
    compactions_id: int = 0
    seq: int = 0
    wal_id: int = 0
    _buffered: list[Version] = field(default_factory=list)
    """Committed, and in no object yet."""
    _memtable: list[Version] = field(default_factory=list)
    """Durable, and in no SST yet."""
    _contents: dict[Ulid, list[Version]] = field(default_factory=dict)
    _parents: dict[str, Author] = field(default_factory=dict)

    def __post_init__(self) -> None:
        segments = self.style.segments
        self.manifest = Manifest(segment_extractor_name=segments.name() if segments else None)
        self.paths = Paths(self.path)

    async def create(self) -> Author:
        """The first manifest, and the first writer."""
        await self.publish(self.manifest)
        await self.reopen()
        return self

    async def reopen(self) -> None:
        """A new writer: it bumps the epoch, and fences its predecessor off with an empty WAL file."""
        await self.flush_wal()
        await self.publish(replace(self.manifest, writer_epoch=self.manifest.writer_epoch + 1))
        self.wal_id += 1
        await self.store.put(self.paths.wal(self.wal_id), FENCE, CREATE)

    async def commit(self, operations: Iterable[Operation]) -> Commit:
        """One row per key."""
        self.seq += 1
        commit = Commit(self.seq, self.chance.now_ms(), tuple(operations))
        self.model.apply(commit)
        self._buffered += commit.versions()
        return commit

    async def flush_wal(self) -> None:
        """What is committed becomes durable: in a WAL file, or in L0 where there is no WAL."""
        if not self._buffered:
            return
        if self.style.wal:
            self.wal_id += 1
            built = build_wal_sst(_rows(self._buffered), self.style.sst.codec)
            await self.store.put(self.paths.wal(self.wal_id), built.tobytes(), CREATE)
        self._memtable += self._buffered
        self._buffered = []
        if not self.style.wal:
            await self.flush()

    async def flush(self, lag: int = 0) -> None:
        """All that is durable goes to L0. Replay starts ``lag`` files before the end: rows that it meets again are old."""
        await self.flush_wal()
        if not self._memtable:
            return
        manifest = self.manifest
        for prefix, versions in self._by_tree(self._memtable):
            handle = await self._write_sst(versions)
            view = SstView(Ulid.new(self.chance), handle)
            manifest = manifest.with_tree(prefix, _tree(manifest, prefix).with_l0(Views.of([view])))
        replay_after = max(manifest.replay_after_wal_id, self.wal_id - lag)
        tick, last_seq = self._memtable[-1].create_ts, self._memtable[-1].seq
        self._memtable = []
        await self.publish(
            replace(
                manifest,
                replay_after_wal_id=replay_after,
                last_l0_clock_tick=tick,
                last_l0_seq=last_seq,
                recent_snapshot_min_seq=last_seq,
                sequence_tracker=manifest.sequence_tracker.record(last_seq, tick // 1000),
            )
        )

    async def compact(self, which: int, l0: int, runs: int, cuts: Sequence[float], *, split: bool, drop: bool) -> None:
        """Merge the ``l0`` oldest views of L0 and the ``runs`` newest sorted runs of one tree.

        ``which`` chooses the tree, ``cuts`` where the output is cut into SSTs: anywhere, also between the versions of one
        key. ``split`` shows every SST through two views. ``drop`` leaves out what no reader sees; else all versions stay.
        """
        segments = self.manifest.segments
        prefix = segments[which % len(segments)].prefix if segments else b""
        tree = _tree(self.manifest, prefix)
        l0_views, sources = tree.l0[max(len(tree.l0) - l0, 0) :], tree.runs[:runs]
        if not l0_views and not sources:
            return
        every_run = [run.id for each in self.manifest.trees for run in each.runs]
        destination = sources[-1].id if sources else max(every_run, default=-1) + 1
        job = await self._begin_job(prefix, l0_views, sources, destination)
        versions = sorted_versions(
            self._seen(itertools.chain(l0_views, *(run.views for run in sources if len(run.views))))
        )
        if drop:
            versions = retained(versions, is_oldest=len(sources) == len(tree.runs))
        views: list[SstView] = []
        for piece in pieces(versions, cuts):
            views += self._views_of(await self._write_sst(piece), split)
        compacted = tree.without_oldest_l0(len(l0_views)).without_runs(run.id for run in sources)
        if l0_views:
            compacted = replace(compacted, last_compacted_l0_view=l0_views[0].id)
        compacted = compacted.with_run(SortedRun(destination, Views.of(views)))
        await self.publish(self.manifest.with_tree(prefix, compacted).with_external_ids_pruned())
        await self._end_job(job, [view.sst for view in views])

    async def checkpoint(self, name: str | None = None) -> Checkpoint:
        """Keep the state of now, with all that is durable."""
        await self.flush_wal()
        now_s = self.chance.now_ms() // 1000
        checkpoint = Checkpoint(self.chance.uuid(), self.manifest_id + 1, None, now_s, name)
        await self.publish(replace(self.manifest, checkpoints=(*self.manifest.checkpoints, checkpoint)))
        if name is not None:
            self.checkpoints[name] = self.model.within(ALL)
        return checkpoint

    async def clone(self, path: str, keys: KeyRange = ALL) -> Author:
        """A database that shares our SSTs: all of them, or what they have of ``keys``."""
        if keys != ALL:
            await self.flush()
        source = await self.checkpoint()
        manifest = replace(self.manifest, trees=projected(self.manifest.trees, keys, self.chance), checkpoints=())
        manifest = manifest.with_external_ids_pruned()
        inherited = [external for external in manifest.external_dbs if len(external.sst_ids)]
        known = {id for external in inherited for id in external.sst_ids}
        own = Ids.of(id for id in manifest.ssts.id if id not in known)
        external_dbs = [
            *(replace(each, source_checkpoint_id=_final(each), final_checkpoint_id=None) for each in inherited),
            ExternalDb(self.path, source.id, None, own),
        ]
        external_dbs = [replace(each, final_checkpoint_id=self.chance.uuid()) for each in external_dbs]
        clone = Author(self.store, path, self.style, self.chance, self.model.within(keys), seq=self.seq)
        clone.wal_id, clone._contents = self.wal_id, self._contents
        clone._parents = {**self._parents, self.path: self}
        clone._memtable = list(self._memtable)
        await clone.publish(replace(manifest, external_dbs=tuple(external_dbs), initialized=False))
        for external in external_dbs:
            await clone._parents[external.path]._keep(external)
        for id in range(manifest.replay_after_wal_id + 1, manifest.wal_id_last_seen + 1):
            await self.store.copy(self.paths.wal(id), clone.paths.wal(id))
        await clone.publish(replace(clone.manifest, initialized=True))
        return clone

    async def collect(self) -> None:
        """Give up and delete the manifests that nobody needs."""
        kept = {checkpoint.manifest_id for checkpoint in self.manifest.checkpoints} | {self.manifest_id}
        gone = [id for id in range(1, self.manifest_id) if id not in kept]
        if gone:
            await self.store.put(self.paths.boundary("manifest"), b"%d" % gone[-1])
            await self.store.delete([self._manifest_key(id) for id in gone])

    async def publish(self, manifest: Manifest) -> None:
        """The next manifest."""
        self.manifest_id += 1
        self.manifest = replace(manifest, wal_id_last_seen=self.wal_id)
        await self.store.put(self._manifest_key(self.manifest_id), encode_manifest(self.manifest), CREATE)

    def _manifest_key(self, id: int) -> str:
        return f"{self.paths.manifest}/{id:020d}.manifest"

    async def _keep(self, external: ExternalDb) -> None:
        """The checkpoint that a clone holds in us, as long as it reads our SSTs."""
        source = self.manifest.checkpoint(external.source_checkpoint_id)
        assert source is not None
        final = replace(source, id=_final(external))
        await self.publish(replace(self.manifest, checkpoints=(*self.manifest.checkpoints, final)))

    async def _write_sst(self, versions: list[Version]) -> SstHandle:
        built = build_sst(_rows(versions), self.style.sst)
        id = Ulid.new(self.chance)
        data, info = built.tobytes(), built.info
        if not self.style.stats:
            data, info = without_stats(built)
        await self.store.put(self.paths.compacted(id), data)
        self._contents[id] = versions
        return SstHandle(id, info, built.version)

    def _views_of(self, handle: SstHandle, split: bool) -> list[SstView]:
        keys = sorted({version.key for version in self._contents[handle.id]})
        if not split or len(keys) < 2:
            return [SstView(handle.id, handle)]
        middle = keys[len(keys) // 2]
        return [
            SstView(handle.id, handle, KeyRange.half_open(None, middle)),
            SstView(Ulid.new(self.chance), handle, KeyRange.half_open(middle, None)),
        ]

    def _seen(self, views: Iterable[SstView]) -> Iterator[Version]:
        for view in views:
            visible = view.visible_range or ALL
            yield from (version for version in self._contents[view.sst.id] if version.key in visible)

    def _by_tree(self, versions: list[Version]) -> Iterator[tuple[bytes, list[Version]]]:
        def prefix(version: Version) -> bytes:
            return version.key[: self.style.segments.prefix_len(Point(version.key))] if self.style.segments else b""

        for segment, group in itertools.groupby(sorted_versions(versions), key=prefix):
            yield segment, list(group)

    async def _begin_job(self, prefix: bytes, l0: Views, runs: Sequence[SortedRun], destination: int) -> Compaction:
        if self.compactions is None:
            epoch = self.manifest.compactor_epoch + 1
            await self.publish(replace(self.manifest, compactor_epoch=epoch))
            await self._publish_compactions(Compactions(epoch))
        assert self.compactions is not None
        spec = TieredSpec(tuple(l0.ids), tuple(run.id for run in runs), destination, prefix)
        job = Compaction(Ulid.new(self.chance), spec, CompactionStatus.RUNNING)
        await self._publish_compactions(self.compactions.with_job(job))
        return job

    async def _end_job(self, job: Compaction, outputs: list[SstHandle]) -> None:
        assert self.compactions is not None
        distinct = {handle.id: handle for handle in outputs}
        ended = replace(job, status=CompactionStatus.COMPLETED, outputs=Ssts.of(distinct.values()))
        await self._publish_compactions(self.compactions.with_job(ended).pruned())

    async def _publish_compactions(self, compactions: Compactions) -> None:
        self.compactions_id += 1
        self.compactions = compactions
        key = f"{self.paths.compactions}/{self.compactions_id:020d}.compactions"
        await self.store.put(key, encode_compactions(compactions), CREATE)


def _rows(versions: list[Version]) -> Rows:
    return Rows.of([version.columns() for version in versions])


def _tree(manifest: Manifest, prefix: bytes) -> Tree:
    return manifest.trees.tree(prefix) or Tree()


def _final(external: ExternalDb) -> UUID:
    assert external.final_checkpoint_id is not None
    return external.final_checkpoint_id
