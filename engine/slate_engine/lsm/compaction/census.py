"""How many rows and tombstones the runs of a database have, by the statistics that their SSTs carry."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from slate_engine.errors import DataError
from slate_engine.format.ids import Ulid
from slate_engine.lsm.compaction.triggers import Counts
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.table import MissingSst, Table
from slate_engine.state.manifest import Manifest

log = logging.getLogger(__name__)

AT_ONCE = 16
"""Statistics are asked for so many at a time."""

UNKNOWN = Counts(0, 0)
"""What an SST counts for whose statistics nobody can read."""


class Census:
    """Asks each SST once, for it never changes."""

    def __init__(self, files: DatabaseFiles) -> None:
        self._files = files
        self._known: dict[Ulid, Counts] = {}

    async def of(self, manifest: Manifest) -> Mapping[Ulid, Counts]:
        """The counts of all SSTs in the runs of ``manifest``."""
        opener = self._files.tables.opener(manifest)
        views = {view.sst.id: view for tree in manifest.trees for run in tree.runs for view in run.views}
        self._known = {id: counts for id, counts in self._known.items() if id in views}
        missing = [view for id, view in views.items() if id not in self._known]
        for start in range(0, len(missing), AT_ONCE):
            some = missing[start : start + AT_ONCE]
            found = await asyncio.gather(*(_counts(opener(view)) for view in some))
            self._known.update({view.sst.id: counts for view, counts in zip(some, found, strict=True)})
        return self._known


async def _counts(table: Table) -> Counts:
    try:
        stats = await table.stats()
    except (DataError, MissingSst) as error:
        # Planning goes on without it. A job that reads the SST will fail on it, and say so where people look.
        log.warning("the statistics of %s cannot be read, so its tombstones do not count: %s", table.key, error)
        return UNKNOWN
    if stats is None:
        return UNKNOWN
    return Counts(stats.num_puts + stats.num_deletes + stats.num_merges, stats.num_deletes)
