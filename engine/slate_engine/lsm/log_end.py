"""Where the log of a database ends, and whether something of it is missing.

WAL files have consecutive numbers, so the first number without a file looks like the end. The manifest knows better: every
file up to its ``wal_id_last_seen`` was stored before the manifest was. A gap below that is a file that was lost, or a log
that is in another store. A reader that takes it for the end shows old rows as if they were the newest.

A collector may delete a file that a newer manifest has in SSTs. So a file counts as missing only if a manifest that was read
before the look knew of it, and one that was read after the look still needs it. SlateDB up to 0.14 wrote a manifest a moment
before the last file that it names; a few more looks give that file the time to come.
"""

from __future__ import annotations

from slate_engine.lsm.paths import Paths
from slate_engine.lsm.replay import truncated
from slate_engine.runtime import Runtime
from slate_engine.state.manifest import Manifest
from slate_engine.store.protocol import ObjectStore

LOOKS = 4
FIRST_PAUSE = 0.1
"""In seconds, between the first look and the second. Each pause is twice as long as the one before."""


class LogEnd:
    """The looks that one reader takes at the end of the log. ``known`` is a manifest that was read before the first."""

    def __init__(self, store: ObjectStore, paths: Paths, runtime: Runtime, known: Manifest | None = None) -> None:
        self._store = store
        self._paths = paths
        self._runtime = runtime
        self._known = known
        self._looks = 0

    def lacks(self, last: int, newest: Manifest) -> bool:
        """Whether the file after ``last`` is missing. ``newest`` was read after the look at the log that ended there."""
        known = self._known
        return known is not None and newest.replay_after_wal_id <= last < min(
            known.wal_id_last_seen, newest.wal_id_last_seen
        )

    async def is_at(self, last: int, newest: Manifest) -> bool:
        """Whether the log ends at ``last``. If not, look again: the files behind it were flushed, or stored since. Raises
        :class:`~slate_engine.lsm.replay.WalTruncated` if a file is missing, look after look."""
        lacking, self._known = self.lacks(last, newest), newest
        if lacking:
            self._looks += 1
            if self._looks == LOOKS:
                raise await truncated(self._store, self._paths, last + 1, newest.needed_wal_ids)
            await self._runtime.sleep(FIRST_PAUSE * 2 ** (self._looks - 1))
        return max(newest.replay_after_wal_id, newest.wal_id_last_seen) <= last
