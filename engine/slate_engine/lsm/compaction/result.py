"""What a finished job makes of the manifest: each a function from a manifest to the next."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.compaction.specs import flaw_of_repeats
from slate_engine.state.compactions import Compaction, DrainSpec, Spec, TieredSpec
from slate_engine.state.invariants import InvalidManifest
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import SortedRun, Tree
from slate_engine.state.views import SstView, Views


def with_result(manifest: Manifest, job: Compaction) -> Manifest:
    """The sources gone, and what the job wrote in their place."""
    assert isinstance(job.spec, TieredSpec)
    return _replaced(manifest, job.spec, Views.of_ssts(job.outputs))


def with_move(manifest: Manifest, spec: TieredSpec) -> Manifest:
    """The sources themselves as one run, which :func:`movable` has found possible."""
    moved = movable(manifest, spec)
    assert moved is not None
    return _replaced(manifest, spec, moved)


def with_drain(manifest: Manifest, spec: DrainSpec) -> Manifest:
    """The sources gone, and nothing in their place. The empty segment stays until its writer drops it."""
    return _replaced(manifest, spec, Views.of([]))


def has_result(manifest: Manifest, job: Compaction) -> bool:
    """Whether the manifest shows what the job wrote: then it was committed, and whoever did it died before saying so."""
    tree = manifest.trees.tree(job.spec.segment)
    if tree is None or not isinstance(job.spec, TieredSpec) or not len(job.outputs):
        return False
    run = tree.run(job.spec.destination)
    return run is not None and run.views.sst_ids == job.outputs.id


def movable(manifest: Manifest, spec: TieredSpec) -> Views | None:
    """The views of all sources in key order, if no two of them overlap: then they are a run as they are."""
    tree = manifest.trees.tree(spec.segment)
    assert tree is not None
    views = sorted(source_views(tree, spec), key=lambda view: _keys(view).start.key)
    apart = all(not _keys(before).overlaps(_keys(after)) for before, after in pairwise(views))
    return Views.of(views) if apart else None


def _keys(view: SstView) -> KeyRange:
    assert view.key_range is not None
    return view.key_range


def source_views(tree: Tree, spec: Spec) -> Views:
    """All that the job reads, newest first."""
    wanted = set(spec.sorted_runs)
    return Views.concat([oldest_l0(tree, spec), *(run.views for run in tree.runs if run.id in wanted)])


def oldest_l0(tree: Tree, spec: Spec) -> Views:
    """The views of L0 that the job takes: always the last ones."""
    return tree.l0[len(tree.l0) - len(spec.l0_views) :]


def _replaced(manifest: Manifest, spec: Spec, views: Views) -> Manifest:
    tree = manifest.trees.tree(spec.segment)
    assert tree is not None
    newest = oldest_l0(tree, spec)[0].id if spec.l0_views else tree.last_compacted_l0_view
    left = tree.without_oldest_l0(len(spec.l0_views)).without_runs(spec.sorted_runs)
    left = replace(left, last_compacted_l0_view=newest, last_compacted_l0_sst=None)
    _check_removed(tree, left, spec)
    if isinstance(spec, TieredSpec) and len(views):
        left = left.with_run(SortedRun(spec.destination, views))
    return manifest.with_tree(spec.segment, left).with_external_ids_pruned()


def _check_removed(before: Tree, left: Tree, spec: Spec) -> None:
    """Raise :class:`InvalidManifest` unless the views that are gone are those that the job merged: each with its id, its
    SST and its visible range. A view that goes without being merged takes its rows with it."""
    merged = oldest_l0(before, spec)
    if sorted(merged.ids) != sorted(spec.l0_views) or Views.concat([left.l0, merged]) != before.l0:
        raise InvalidManifest("the compaction would remove other L0 views than it merged")
    if flaw_of_repeats(before, spec) is not None:
        raise InvalidManifest("the compaction would leave an L0 view with the id of one that it merged")
    # Runs are the same objects where the job does not touch them.
    others = [run for run in before.runs if run.id not in spec.sorted_runs]
    if len(others) != len(left.runs) or any(a is not b for a, b in zip(others, left.runs, strict=True)):
        raise InvalidManifest("the compaction would remove other sorted runs than it merged")
    if isinstance(spec, TieredSpec) and left.run(spec.destination) is not None:
        raise InvalidManifest(f"the compaction would write over run {spec.destination}, which it did not merge")
