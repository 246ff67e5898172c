"""About how many keys a database has, without reading them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from slate_engine.format.ids import Ulid
from slate_engine.lsm.table import Table
from slate_engine.state.manifest import Manifest
from slate_engine.state.views import SstView

SAMPLED = 16
"""SSTs whose statistics are read. The rest is taken to be like them."""


class KeyEstimate:
    """Remembers what it has read: an SST never changes."""

    def __init__(self) -> None:
        self._rows: dict[Ulid, int] = {}

    async def of(self, manifest: Manifest, open_table: Callable[[SstView], Table], in_memory: int) -> int:
        """Rows in memory, and in SSTs by their size. A key that was written several times counts several times until it is
        compacted."""
        sampled_bytes = sampled_rows = 0
        for view in _largest(manifest):
            rows = self._rows.get(view.sst.id)
            if rows is None:
                stats = await open_table(view).stats()
                if stats is None:
                    continue
                rows = self._rows[view.sst.id] = max(stats.num_puts + stats.num_merges - stats.num_deletes, 0)
            sampled_bytes += view.estimated_size
            sampled_rows += rows
        if not sampled_bytes:
            return in_memory
        return in_memory + round(sampled_rows * manifest.estimated_size / sampled_bytes)


def _largest(manifest: Manifest) -> Iterable[SstView]:
    """Of each tree the oldest run first, which holds most."""
    views = (view for tree in manifest.trees for run in reversed(list(tree.runs)) for view in run.views)
    recent = (view for tree in manifest.trees for view in tree.l0)
    yield from islice(views, SAMPLED)
    yield from islice(recent, SAMPLED)
