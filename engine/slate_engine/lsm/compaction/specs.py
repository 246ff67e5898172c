"""Whether a job makes sense: what it names, against the manifest and beside other jobs.

Jobs come from our own planning, from anybody who submits one, and from the book of a compactor that died. All of them pass
here before they are given to a worker, and once more before their result is committed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.book import OURS
from slate_engine.state.compactions import Compaction, Compactions, CompactionStatus, DrainSpec, Spec, TieredSpec
from slate_engine.state.manifest import Manifest
from slate_engine.state.tree import Tree

Source: TypeAlias = Ulid | int
"""A view of L0, or a sorted run."""


def sources(spec: Spec) -> list[Source]:
    """What a job reads, newest first."""
    return [*spec.l0_views, *spec.sorted_runs]


def destinations(specs: Iterable[Spec]) -> set[int]:
    return {spec.destination for spec in specs if isinstance(spec, TieredSpec)}


def describe(spec: Spec) -> str:
    """A job in a few words, for logs."""
    where = f" of segment {spec.segment!r}" if spec.segment else ""
    runs = ", ".join(f"run {run}" for run in spec.sorted_runs)
    what = " and ".join(filter(None, [f"{len(spec.l0_views)} SSTs of L0" if spec.l0_views else "", runs]))
    return f"{what}{where} to run {spec.destination}" if isinstance(spec, TieredSpec) else f"drain {what}{where}"


def input_bytes(spec: Spec, manifest: Manifest) -> int:
    """What a merge reads, as far as the manifest shows its sources. A drain reads nothing."""
    tree = manifest.trees.tree(spec.segment)
    if tree is None or isinstance(spec, DrainSpec):
        return 0
    views, runs = set(spec.l0_views), set(spec.sorted_runs)
    l0 = sum(int(size) for id, size in zip(tree.l0.ids, tree.l0.sizes, strict=True) if id in views)
    return l0 + sum(run.estimated_size for run in tree.runs if run.id in runs)


def find_flaw(job: Compaction, manifest: Manifest, book: Compactions) -> str | None:
    """Why the job must not be done, or its result not be used; None if all is well."""
    spec = job.spec
    if not sources(spec):
        return "it has no sources"
    tree = manifest.trees.tree(spec.segment)
    if tree is None:
        return f"there is no segment {spec.segment!r}"
    flaw = _flaw_of_sources(spec, tree) or _flaw_of_result(job) or _flaw_beside_others(job, book)
    if flaw is None and isinstance(spec, TieredSpec):
        flaw = _flaw_of_destination(spec, tree, manifest, is_new=job.status is CompactionStatus.SUBMITTED)
    return flaw


def flaw_of_repeats(tree: Tree, spec: Spec) -> str | None:
    """Why the job must not take its views of L0, if others that it leaves have the same ids. Unions of SlateDB 0.17 have
    such views. The manifest marks how far L0 is compacted by one view id, so a live writer would drop the wrong views."""
    taken = len(spec.l0_views)
    wanted = len(tree.l0) - tree.l0.whole_from(len(tree.l0) - taken)
    if wanted == taken:
        return None
    return (
        "L0 has several views of one id, as unions of SlateDB 0.17 do, and a job must take all of them; submit one with "
        f"the {wanted} oldest views, not {taken}, and name an id as often as L0 has it"
    )


def repeats_views(spec: Spec) -> bool:
    """Whether the job names an id of L0 several times, as it must where several views have that id."""
    return len({*spec.l0_views}) < len(spec.l0_views)


def _flaw_of_result(job: Compaction) -> str | None:
    """A worker of SlateDB 0.17 looks the views up by their ids: where views share one, it merges one of them several times,
    and the others never."""
    ours = job.worker is not None and job.worker.id.startswith(OURS)
    if job.status is not CompactionStatus.COMPACTED or ours or not repeats_views(job.spec):
        return None
    return (
        "L0 has several views of one id, as unions of SlateDB 0.17 do, and another worker than ours has merged them, which "
        "may have left rows out; let only workers of Slatekeeper compact this database until L0 has no such views"
    )


def _flaw_of_sources(spec: Spec, tree: Tree) -> str | None:
    # The writer drops everything from the newest compacted view on, so an older one that was left out would be lost.
    oldest = list(tree.l0.ids)[-len(spec.l0_views) :] if spec.l0_views else []
    runs = [run.id for run in tree.runs]
    if isinstance(spec, DrainSpec):
        if sorted(oldest) != sorted(spec.l0_views):
            return "its views are not the oldest ones of L0"
        missing = set(spec.sorted_runs) - set(runs)
        return f"run {min(missing)} does not exist" if missing else flaw_of_repeats(tree, spec)
    if tuple(oldest) != spec.l0_views:
        return "its views are not the oldest ones of L0, from the newest to the oldest"
    flaw = flaw_of_repeats(tree, spec)
    if flaw is not None or not spec.sorted_runs:
        return flaw
    if spec.sorted_runs[0] not in runs:
        return f"run {spec.sorted_runs[0]} does not exist"
    start = runs.index(spec.sorted_runs[0])
    if tuple(runs[start : start + len(spec.sorted_runs)]) != spec.sorted_runs:
        return "its runs are not neighbours, from the newest to the oldest"
    if spec.l0_views and start > 0:
        return f"run {runs[0]} lies between its views of L0 and its runs"
    return None


def _flaw_of_destination(spec: TieredSpec, tree: Tree, manifest: Manifest, *, is_new: bool) -> str | None:
    if spec.sorted_runs:
        oldest = spec.sorted_runs[-1]
        return None if spec.destination == oldest else f"its destination is not its oldest run, {oldest}"
    everywhere = {run.id for each in manifest.trees for run in each.runs}
    if spec.destination in everywhere:
        return f"run {spec.destination} exists already"
    # Once it is scheduled, jobs of other trees with greater numbers may well end before it, as long as it may wait.
    others = everywhere if is_new else {run.id for run in tree.runs}
    if max(others, default=-1) > spec.destination:
        return "a run that comes from L0 needs a greater number than all others"
    return None


def _flaw_beside_others(job: Compaction, book: Compactions) -> str | None:
    """Of two jobs that want the same, the one that is further goes on, and else the older one."""
    mine = {*sources(job.spec), *destinations([job.spec])}
    for other in book.jobs:
        if not other.is_active or other.id == job.id or _precedence(job) < _precedence(other):
            continue
        both_l0 = other.spec.segment == job.spec.segment and bool(other.spec.l0_views and job.spec.l0_views)
        if both_l0 or mine & {*sources(other.spec), *destinations([other.spec])}:
            return f"compaction {other.id} works on the same"
    return None


def _precedence(job: Compaction) -> tuple[int, Ulid]:
    ahead = {CompactionStatus.COMPACTED: 0, CompactionStatus.SUBMITTED: 2}
    return ahead.get(job.status, 1), job.id


def is_deepest(spec: TieredSpec, tree: Tree) -> bool:
    """Whether nothing older lies below the result: then deleted rows need no tombstones any more."""
    return not tree.runs or tree.runs[-1].id == spec.destination
