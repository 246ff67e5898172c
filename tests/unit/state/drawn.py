"""Random states: every optional field absent and present, every kind of range, small and large numbers."""

from __future__ import annotations

from hypothesis import strategies as st

from slate_engine.format.ids import Ids, Ulid
from slate_engine.format.key_range import UNBOUNDED, Bound, KeyRange
from slate_engine.format.sst_meta import Codec, FilterFormat, SstInfo, SstType
from slate_engine.state.compactions import (
    Compaction,
    Compactions,
    CompactionStatus,
    Context,
    DrainSpec,
    Subcompaction,
    SubcompactionStatus,
    TieredSpec,
    Worker,
)
from slate_engine.state.manifest import Checkpoint, ExternalDb, Manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tracker import SequenceTracker
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.views import SstView, Views

u16 = st.integers(1, 2**16 - 1)
u32 = st.integers(0, 2**32 - 1)
u64 = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])
places = st.integers(0, 2**48)
keys = st.binary(min_size=1, max_size=12)
ulids = st.builds(Ulid, st.integers(0, 2**128 - 1))
texts = st.text(max_size=12)


@st.composite
def infos(draw: st.DrawFn, first: bytes, last: bytes | None) -> SstInfo:
    return SstInfo(
        first,
        last,
        *(draw(places) for _ in range(4)),
        draw(st.sampled_from(Codec)),
        draw(st.sampled_from(SstType)),
        draw(places),
        draw(places),
        draw(st.sampled_from(FilterFormat)),
    )


@st.composite
def views_between(draw: st.DrawFn, first: bytes, last: bytes, ssts: dict[Ulid, SstHandle]) -> SstView:
    """A view of these keys, perhaps of an SST that has more than those."""
    id = draw(ulids.filter(lambda id: id not in ssts))
    before, after = draw(st.booleans()), draw(st.booleans())
    physical_last = None if draw(st.integers(0, 4)) == 0 else last + b"\xff" if after else last
    sst = ssts[id] = SstHandle(id, draw(infos(b"" if before else first, physical_last)), draw(u16))
    start = Bound.included(first) if before else draw(st.sampled_from([UNBOUNDED, Bound.included(first)]))
    # What reaches beyond must be cut off, lest it overlaps its neighbour.
    if after or physical_last is None:
        end = draw(st.sampled_from([Bound.included(last), Bound.excluded(last + b"\x00")]))
    else:
        end = draw(st.sampled_from([UNBOUNDED, Bound.included(last), Bound.excluded(last + b"\x00")]))
    visible = KeyRange(start, end)
    needed = before or after or physical_last is None
    view_id = id if draw(st.booleans()) else draw(ulids)
    return SstView(view_id, sst, visible if needed or draw(st.booleans()) else None)


@st.composite
def trees(draw: st.DrawFn, run_ids: list[int], ssts: dict[Ulid, SstHandle]) -> Tree:
    l0 = []
    for _ in range(draw(st.integers(0, 3))):
        first, last = sorted([draw(keys), draw(keys)])
        l0.append(draw(views_between(first, last, ssts)))
    if ssts and draw(st.booleans()):
        # An SST that another view shows as well.
        l0.append(SstView(draw(ulids), draw(st.sampled_from(sorted(ssts.values(), key=lambda sst: sst.id)))))
    runs = []
    for id in sorted(run_ids, reverse=True):
        edges = sorted(draw(st.lists(keys, min_size=0, max_size=6)))
        pairs = list(zip(edges[::2], edges[1::2], strict=False))
        # A view of an SST of old, whose end is unknown, is followed by none with the same first key.
        runs.append(SortedRun(id, Views.of([draw(views_between(*pair, ssts)) for pair in pairs])))
    return Tree(Views.of(l0), tuple(runs), draw(st.none() | ulids))


@st.composite
def all_trees(draw: st.DrawFn, segmented: bool = True) -> Trees:
    ssts: dict[Ulid, SstHandle] = {}
    ids = draw(st.lists(u32, unique=True, max_size=5))
    cut = draw(st.integers(0, len(ids)))
    root = draw(trees(ids[:cut], ssts))
    if not segmented:
        return Trees(root)
    prefixes = sorted(draw(st.lists(keys, unique=True, max_size=3)))
    prefixes = [p for p in prefixes if not any(p != other and p.startswith(other) for other in prefixes)]
    segments = []
    for i, prefix in enumerate(prefixes):
        part = ids[cut:][i :: len(prefixes)]
        segments.append(Segment(prefix, draw(trees(part, ssts))))
    return Trees(root, tuple(segments))


checkpoints = st.builds(
    Checkpoint,
    id=st.uuids(),
    manifest_id=st.integers(1, 2**64 - 1),
    expire_time_s=st.none() | st.integers(1, 2**32 - 1),
    create_time_s=u32,
    name=st.none() | texts,
    writer_epoch=st.none() | st.integers(0, 2**64 - 1),
)

external_dbs = st.builds(
    ExternalDb,
    path=texts,
    source_checkpoint_id=st.uuids(),
    final_checkpoint_id=st.none() | st.uuids(),
    sst_ids=st.lists(ulids, max_size=4).map(Ids.of),
)

trackers = st.lists(st.tuples(st.integers(0, 2**30), st.integers(0, 2**31 - 1)), max_size=30).map(
    lambda points: SequenceTracker.of(
        list(zip(sorted(seq for seq, _ in points), sorted(time for _, time in points), strict=True))
    )
)


@st.composite
def manifests(draw: st.DrawFn, segmented: bool = True) -> Manifest:
    drawn = draw(all_trees(segmented))
    externals = draw(st.lists(external_dbs, max_size=2))
    if len(drawn.ssts) and draw(st.booleans()):
        # Mostly they list SSTs that the trees show.
        externals.append(ExternalDb("parent", draw(st.uuids()), draw(st.uuids()), drawn.ssts.id))
    return Manifest(
        initialized=draw(st.booleans()),
        writer_epoch=draw(u64),
        compactor_epoch=draw(u64),
        replay_after_wal_id=draw(u64),
        wal_id_last_seen=draw(st.integers(0, 2**64 - 2)),
        trees=drawn,
        last_l0_clock_tick=draw(st.integers(-(2**63), 2**63 - 1)),
        last_l0_seq=draw(u64),
        recent_snapshot_min_seq=draw(u64),
        checkpoints=tuple(draw(st.lists(checkpoints, max_size=3, unique_by=lambda each: each.id))),
        external_dbs=tuple(externals),
        sequence_tracker=draw(trackers),
        segment_extractor_name=draw(st.none() | texts),
    )


@st.composite
def outputs(draw: st.DrawFn, job: Ulid) -> Ssts:
    """SSTs that are not older than their job."""
    handles = []
    for _ in range(draw(st.integers(0, 3))):
        first, last = sorted([draw(keys), draw(keys)])
        id = Ulid.of(draw(st.integers(job.ms, 2**48 - 1)), draw(st.integers(0, 2**80 - 1)))
        handles.append(SstHandle(id, draw(infos(first, last)), draw(u16)))
    return Ssts.of(handles)


@st.composite
def key_ranges(draw: st.DrawFn) -> KeyRange:
    first, last = sorted([draw(keys), draw(keys)])
    return draw(
        st.sampled_from(
            [
                KeyRange(),
                KeyRange.half_open(first, None),
                KeyRange.half_open(None, last),
                KeyRange.half_open(first, last + b"\x00"),
                KeyRange.closed(first, last),
                KeyRange(Bound.excluded(first), Bound.included(last + b"\x00")),
            ]
        )
    )


@st.composite
def jobs(draw: st.DrawFn) -> Compaction:
    id = draw(ulids)
    l0, runs = tuple(draw(st.lists(ulids, max_size=3))), tuple(draw(st.lists(u32, max_size=3)))
    tiered = TieredSpec(l0, runs, draw(u32), draw(st.binary(max_size=4)))
    status = draw(st.sampled_from(CompactionStatus))
    begun = status in (CompactionStatus.COMPLETED, CompactionStatus.FAILED, CompactionStatus.COMPACTED)
    parts = [
        Subcompaction(draw(key_ranges()), draw(outputs(id)), draw(st.sampled_from(SubcompactionStatus)))
        for _ in range(draw(st.integers(0, 2)))
    ]
    return Compaction(
        id,
        tiered if draw(st.booleans()) else DrainSpec(draw(keys), l0, runs),
        status,
        draw(outputs(id)) if begun else Ssts.of([]),
        draw(st.none() | st.builds(Worker, texts, u64)),
        Context(tuple(parts), draw(u64)) if draw(st.booleans()) else None,
    )


@st.composite
def books(draw: st.DrawFn) -> Compactions:
    drawn = draw(st.lists(jobs(), max_size=4, unique_by=lambda job: job.id))
    return Compactions(draw(u64), tuple(sorted(drawn, key=lambda job: job.id)))
