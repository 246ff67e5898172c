"""How full level 0 is: every read may have to look at all of it, so flushing waits for compaction at some point."""

from __future__ import annotations

from slate_engine.state.tree import Trees
from slate_engine.state.views import Views


def l0_count(trees: Trees) -> int:
    """The number of SSTs in the largest level 0."""
    return max(len(tree.l0) for tree in trees)


def has_room(trees: Trees, max_ssts: int, max_per_key: int | None) -> bool:
    """Whether every tree can take one more SST, overlapping or not."""
    if l0_count(trees) >= max_ssts:
        return False
    # SSTs that lie side by side cost a read nothing, so their number is looked at first and their ranges only if need be.
    return max_per_key is None or all(len(tree.l0) < max_per_key or l0_depth(tree.l0) < max_per_key for tree in trees)


def l0_depth(l0: Views) -> int:
    """In how many SSTs one key may be at most."""
    bounds = l0.alone().bounds()
    # At one key, an SST that begins there comes before one that ends there, but after one that ends right before it.
    edges: list[tuple[bool, bytes, int]] = []
    for lower, upper, is_open in zip(bounds.lower, bounds.upper, bounds.open.tolist(), strict=True):
        edges.append((False, lower or b"", 1))
        edges.append((upper is None, upper or b"", 0 if is_open else 2))
    depth = deepest = 0
    for _, _, kind in sorted(edges):
        depth += 1 if kind == 1 else -1
        deepest = max(deepest, depth)
    return deepest
