"""Which versions go into which SST, and what of an SST a tree sees."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

from slate_engine.format.checksum import sealed
from slate_engine.format.ids import Chance
from slate_engine.format.key_range import ALL, KeyRange
from slate_engine.format.sst_build import BuiltSst
from slate_engine.format.sst_meta import SstInfo, encode_info
from slate_engine.state.tree import SortedRun, Tree, Trees
from tests.interop.history import Kind, Version


def without_stats(built: BuiltSst) -> tuple[bytes, SstInfo]:
    """The same SST as a version of SlateDB that knew no statistics would have written it."""
    info = replace(built.info, stats_offset=0, stats_len=0)
    offset = built.info.stats_offset
    tail = sealed(encode_info(info)) + offset.to_bytes(8, "big") + built.version.to_bytes(2, "big")
    return built.tobytes()[:offset] + tail, info


def pieces(versions: list[Version], cuts: Sequence[float]) -> Iterator[list[Version]]:
    edges = sorted({0, len(versions), *(int(cut * len(versions)) for cut in cuts)})
    for start, end in itertools.pairwise(edges):
        yield versions[start:end]


def retained(versions: list[Version], *, is_oldest: bool) -> list[Version]:
    """Without what lies below the first value or tombstone of a key; the oldest run needs no tombstones either."""
    kept: list[Version] = []
    for _, of_key in itertools.groupby(versions, key=lambda version: version.key):
        needed: list[Version] = []
        for version in of_key:
            needed.append(version)
            if version.kind is not Kind.MERGE:
                break
        if is_oldest and needed[-1].kind is Kind.DELETE:
            needed.pop()
        kept += needed
    return kept


def projected(trees: Trees, keys: KeyRange, chance: Chance) -> Trees:
    """Views with nothing in ``keys`` are gone, and so are runs and segments without views."""
    if keys == ALL:
        return trees
    projected = Trees(_projected_tree(trees.root, keys, chance))
    for segment in trees.segments:
        tree = _projected_tree(segment.tree, keys, chance)
        if not tree.is_empty:
            projected = projected.with_tree(segment.prefix, tree)
    return projected


def _projected_tree(tree: Tree, keys: KeyRange, chance: Chance) -> Tree:
    runs = [SortedRun(run.id, run.views.projected(keys, chance)) for run in tree.runs]
    return replace(tree, l0=tree.l0.projected(keys, chance), runs=tuple(run for run in runs if len(run.views)))
