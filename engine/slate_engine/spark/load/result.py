"""What a finished load makes of the manifest: a function from a manifest to the next, and what that needs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Ulid
from slate_engine.spark.load.building import Part
from slate_engine.state.epochs import claim_compactor
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle, Ssts
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views

SLOWEST_CLOCK_MS = 3_600_000
"""A writer's clock that is so far behind is borne."""


@dataclass(frozen=True)
class Loaded:
    """All that is to be committed at once."""

    runs: tuple[Ssts, ...]
    last_seq: int
    created_ms: int
    """No row is younger."""
    log: SstHandle | None
    """What the log held that was in no SST yet."""
    log_end: int
    """The last WAL file, whose rows are in SSTs from now on."""


def arranged(parts: Sequence[Part]) -> tuple[Ssts, ...]:
    """The parts as as few sorted runs as can be. No key is in two of them, so any order of the runs is right."""
    runs: list[list[Part]] = []
    for part in sorted((part for part in parts if part.ssts), key=_first):
        run = next((run for run in runs if _last(run[-1]) < _first(part)), None)
        if run is None:
            runs.append([part])
        else:
            run.append(part)
    return tuple(Ssts.of(handle for part in run for handle in part.ssts) for run in runs)


def check_apart(parts: Iterable[Part]) -> None:
    """Raises unless the ranges of the parts are apart, as whoever made them says."""
    ordered = sorted((part for part in parts if part.ssts), key=_first)
    for before, after in pairwise(ordered):
        if _last(before) >= _first(after):
            raise InvalidError(
                f"partitions {before.partition} and {after.partition} of the load overlap, from {_first(after)!r} to "
                f"{_last(before)!r}; nothing was loaded. Divide the frame by ranges of its keys, as load() does, or leave "
                "rangePartitioned out"
            )


def with_load(manifest: Manifest, loaded: Loaded) -> Manifest:
    """The manifest with all rows of the load, which are newer than all that it has.

    Rows of level 0 are found before those of sorted runs. So what is in level 0 now becomes sorted runs as it is, one for
    each SST, below those of the load. Runs are the compactor's to change: it is told by an epoch that somebody did."""
    tree = manifest.root
    views = [tree.l0[place : place + 1] for place in reversed(range(len(tree.l0)))]
    if loaded.log is not None:
        views.append(Views.of([SstView(loaded.log.id, loaded.log)]))
    views += [Views.of_ssts(run) for run in loaded.runs]
    first = max((run.id for each in manifest.trees for run in each.runs), default=-1) + 1
    runs = [SortedRun(first + place, each) for place, each in enumerate(views)]
    root = Tree(runs=(*reversed(runs), *tree.runs), last_compacted_l0_view=_mark(tree, loaded))
    return replace(
        claim_compactor(manifest.with_root(root)),
        replay_after_wal_id=max(manifest.replay_after_wal_id, loaded.log_end),
        wal_id_last_seen=max(manifest.wal_id_last_seen, loaded.log_end),
        last_l0_seq=loaded.last_seq,
        last_l0_clock_tick=max(manifest.last_l0_clock_tick, loaded.created_ms),
        recent_snapshot_min_seq=loaded.last_seq,
        sequence_tracker=manifest.sequence_tracker.record(loaded.last_seq, loaded.created_ms // 1000),
    )


def _mark(tree: Tree, loaded: Loaded) -> Ulid:
    """The newest SST of level 0 that was compacted. Collectors take nothing younger, since a writer may be about to publish
    it. A load has fenced all writers; so it moves the mark, or in a database that is only ever loaded nothing could go. No
    writer's clock may be behind the mark, or what it flushes is refused: therefore not up to now."""
    mark = Ulid.of(max(loaded.created_ms - SLOWEST_CLOCK_MS, 0), 0)
    newest = tree.l0[0].id if tree.l0 else tree.last_compacted_l0_view
    return mark if newest is None or newest.ms < mark.ms else newest


def shows(manifest: Manifest, loaded: Loaded) -> bool:
    """Whether this load was committed already."""
    return bool(loaded.runs) and manifest.ssts.find(loaded.runs[0].id[0]) is not None


def _first(part: Part) -> bytes:
    first = part.ssts[0].info.first_entry
    assert first is not None
    return first


def _last(part: Part) -> bytes:
    last = part.ssts[-1].info.last_entry
    assert last is not None
    return last
