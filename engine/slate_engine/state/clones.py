"""The first manifest of a clone: of one database, of a range of its keys, or of several with disjoint ranges.

A clone shows SSTs of its parents where they lie. For each database that holds some of them there is an entry in
``external_dbs``; its ``final`` checkpoint is the one that will keep them there for as long as the clone needs them. It is
named here, before it exists, so that a clone which is begun a second time goes on with the same.

No two L0 views of a tree have one id: compactors and writers name L0 views by their ids. So a projection renews the ids of
the views that it narrows, and every clone those that repeat in a tree of its parents.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np

from slate_engine.errors import InvalidError
from slate_engine.format.ids import Chance, Ids
from slate_engine.format.key_range import Bound, BoundType, KeyRange
from slate_engine.state.manifest import ExternalDb, Manifest
from slate_engine.state.tree import Segment, SortedRun, Tree, Trees
from slate_engine.state.view_table import KeyBounds
from slate_engine.state.views import Views


class InvalidUnion(InvalidError):
    """These databases cannot become one."""


@dataclass(frozen=True)
class Source:
    """A parent: its path, and the state that its checkpoint ``checkpoint_id`` keeps."""

    path: str
    checkpoint_id: UUID
    manifest: Manifest


def cloned(source: Source, new_id: Callable[[], UUID], chance: Chance) -> Manifest:
    """The whole state of the source, under construction: the WAL has yet to be copied."""
    parent = source.manifest
    return replace(
        parent,
        initialized=False,
        trees=_with_distinct_l0(parent.trees, chance),
        checkpoints=(),
        external_dbs=tuple(
            replace(external, final_checkpoint_id=new_id()) for external in (*_inherited(parent), _own(source))
        ),
    )


def projected(manifest: Manifest, keys: KeyRange, chance: Chance) -> Manifest:
    """The same cut down to ``keys``. SSTs stay as they are; views of them become narrower, or vanish."""
    keys = _from_an_included_key(keys)
    segments = (Segment(segment.prefix, _projected_tree(segment.tree, keys, chance)) for segment in manifest.segments)
    trees = Trees(
        _projected_tree(manifest.root, keys, chance),
        tuple(segment for segment in segments if not segment.tree.is_empty),
    )
    pruned = replace(manifest, trees=trees).with_external_ids_pruned()
    return replace(pruned, external_dbs=tuple(each for each in pruned.external_dbs if len(each.sst_ids)))


def united(sources: Sequence[Source], new_id: Callable[[], UUID], chance: Chance) -> Manifest:
    """One database of several whose keys do not overlap. It begins anew: epochs, the log and compaction start at nothing."""
    names = {source.manifest.segment_extractor_name for source in sources}
    if len(names) > 1:
        raise InvalidUnion(
            f"the databases have different segment extractors, {sorted(map(str, names))}: a key would be looked for in the "
            "wrong segment"
        )
    return Manifest(
        initialized=False,
        trees=_with_distinct_l0(_united_trees(sources).with_run_ids_from(0), chance),
        last_l0_clock_tick=max(source.manifest.last_l0_clock_tick for source in sources),
        last_l0_seq=max(source.manifest.last_l0_seq for source in sources),
        external_dbs=tuple(replace(external, final_checkpoint_id=new_id()) for external in _united_externals(sources)),
        segment_extractor_name=names.pop(),
    )


def finished(manifest: Manifest) -> Manifest:
    """Everything is in place: the clone is a database."""
    return manifest if manifest.initialized else replace(manifest, initialized=True)


def without_log(manifest: Manifest) -> Manifest:
    """Nothing is to be replayed: all rows of the log are in SSTs."""
    return replace(manifest, replay_after_wal_id=manifest.wal_id_last_seen)


def _inherited(parent: Manifest) -> list[ExternalDb]:
    """What the parent itself shows of others. The checkpoint by which it keeps that is the source of a new one: the one
    that it was made from belongs to a user, and may be gone."""
    return [
        replace(external, source_checkpoint_id=external.final_checkpoint_id or external.source_checkpoint_id)
        for external in parent.external_dbs
        if len(external.sst_ids)
    ]


def _own(source: Source) -> ExternalDb:
    manifest = source.manifest
    return ExternalDb(
        source.path, source.checkpoint_id, None, manifest.ssts.id.take(np.flatnonzero(manifest.owners < 0))
    )


def _projected_tree(tree: Tree, keys: KeyRange, chance: Chance) -> Tree:
    runs = (SortedRun(run.id, run.views.projected(keys, chance)) for run in tree.runs)
    return replace(tree, l0=tree.l0.projected(keys, chance), runs=tuple(run for run in runs if len(run.views)))


def _from_an_included_key(keys: KeyRange) -> KeyRange:
    """The same keys; SlateDB knows no visible range that begins with an excluded one."""
    if keys.start.type is BoundType.EXCLUDED:
        return replace(keys, start=Bound.included(keys.start.key + b"\x00"))
    return keys


def _united_trees(sources: Sequence[Source]) -> Trees:
    parts: dict[bytes, list[tuple[str, Tree]]] = {}
    for source in sources:
        trees = [(b"", source.manifest.root), *((each.prefix, each.tree) for each in source.manifest.segments)]
        for prefix, tree in trees:
            if not tree.is_empty:
                parts.setdefault(prefix, []).append((source.path, tree))
    prefixes = sorted(prefix for prefix in parts if prefix)
    for before, after in itertools.pairwise(prefixes):
        if after.startswith(before):
            raise InvalidUnion(f"segment {before!r} of one database contains segment {after!r} of another")
    return Trees(
        _joined(parts.get(b"", []), b""), tuple(Segment(prefix, _joined(parts[prefix], prefix)) for prefix in prefixes)
    )


def _joined(parts: Iterable[tuple[str, Tree]], prefix: bytes) -> Tree:
    """One tree of several with disjoint keys: then it does not matter which comes first."""
    placed = sorted(((*_extent(tree), path, tree) for path, tree in parts), key=lambda part: part[0])
    for (_, end, is_open, path, _), (start, _, _, other, _) in itertools.pairwise(placed):
        if end is None or start < end or (start == end and not is_open):
            where = f" in segment {prefix!r}" if prefix else ""
            raise InvalidUnion(
                f"the keys of {path!r} and {other!r} overlap{where}: the one reaches to {end!r}, the other begins with "
                f"{start!r}; give each a range of keys of its own"
            )
    trees = [tree for *_, tree in placed]
    return Tree(Views.concat(tree.l0 for tree in trees), tuple(run for tree in trees for run in tree.runs))


def _extent(tree: Tree) -> tuple[bytes, bytes | None, bool]:
    """The first and the last key of a tree that is not empty, and whether the last one itself is excluded."""
    all_bounds: list[KeyBounds] = [views.alone().bounds() for views in tree.views() if len(views)]
    first = min(
        lower for bounds in all_bounds for i in range(len(bounds.open)) if (lower := bounds.lower[i]) is not None
    )
    uppers = [(bounds.upper[i], not bounds.open[i]) for bounds in all_bounds for i in range(len(bounds.open))]
    if any(upper is None for upper, _ in uppers):
        return first, None, False
    last, closed = max((upper, closed) for upper, closed in uppers if upper is not None)
    return first, last, not closed


def _with_distinct_l0(trees: Trees, chance: Chance) -> Trees:
    def distinct(tree: Tree) -> Tree:
        return replace(tree, l0=tree.l0.with_distinct_ids(chance))

    return Trees(distinct(trees.root), tuple(Segment(each.prefix, distinct(each.tree)) for each in trees.segments))


def _united_externals(sources: Sequence[Source]) -> list[ExternalDb]:
    """One entry for each database and set of SSTs: two clones of one parent often show the very same of it. Where an entry
    stands for a source itself its checkpoint is the one that the user gave, by which a second attempt knows it again."""
    given = {source.path: source.checkpoint_id for source in sources}
    merged: dict[tuple[str, bytes, bytes], ExternalDb] = {}
    for external in itertools.chain.from_iterable((*_inherited(each.manifest), _own(each)) for each in sources):
        ids = _sorted(external.sst_ids)
        key = (external.path, ids.high.tobytes(), ids.low.tobytes())
        candidates = [external.source_checkpoint_id]
        if key in merged:
            candidates.append(merged[key].source_checkpoint_id)
        chosen = given.get(external.path)
        source_id = chosen if chosen is not None and chosen in candidates else min(candidates)
        merged[key] = ExternalDb(external.path, source_id, None, ids)
    return list(merged.values())


def _sorted(ids: Ids) -> Ids:
    order = ids.order()
    return ids if order is None else ids.take(order)
