"""The leases of readers, and their looks at the end of the log, switched off one at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest import mock
from uuid import UUID

from slate_engine.lsm import reader
from slate_engine.lsm.leases import Lease, Leases
from slate_engine.lsm.log_end import LogEnd
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from tests.simulation.mutation import edited


def leases_not_renewed() -> AbstractContextManager[object]:
    tended = Leases._tended

    def delete_only(
        self: Leases, manifest: Manifest, unused: Iterable[UUID], due: Iterable[UUID], now_ms: int
    ) -> Manifest:
        return tended(self, manifest, unused, [], now_ms)

    return mock.patch.object(Leases, "_tended", delete_only)


def leases_renewed_only_where_nothing_happens() -> AbstractContextManager[object]:
    """A reader that finds something new at every look never comes to it."""
    establish = Leases.establish

    async def without_the_others(self: Leases, wal_id_last_seen: int) -> tuple[Lease, Versioned[Manifest]]:
        with mock.patch.object(self, "_to_tend", return_value=(set(), [])):
            return await establish(self, wal_id_last_seen)

    return mock.patch.object(Leases, "establish", without_the_others)


def leases_dropped_while_somebody_reads() -> AbstractContextManager[object]:
    """The reader goes on to the next state, and gives up the one before at once."""
    made = reader.LeasedSnapshot

    def without_lease(*parts: Any, **more: Any) -> Any:
        return made(*parts[:-1], None, **more)

    return mock.patch.object(reader, "LeasedSnapshot", without_lease)


def lost_leases_go_unnoticed() -> AbstractContextManager[object]:
    """A reader that slept through the end of its lease goes on as if it still had it."""
    return mock.patch.object(Leases, "is_lost", return_value=False)


def leases_that_trust_every_clock() -> AbstractContextManager[object]:
    """They end when the reader's clock says so, by the clock of a collector."""
    return edited(Leases, "_whole_seconds_ms", " + SKEW_MS", "")


@contextmanager
def gaps_taken_for_the_end() -> Iterator[None]:
    """The log ends where the first file is missing, whatever the manifest needs."""
    known = "max(newest.replay_after_wal_id, newest.wal_id_last_seen)"
    with (
        edited(LogEnd, "is_at", known, "newest.replay_after_wal_id"),
        edited(LogEnd, "lacks", "known is not None and newest", "False and newest"),
    ):
        yield


def old_state_shown_although_the_log_is_lost() -> AbstractContextManager[object]:
    """As a reader does whose store does not answer."""
    return edited(reader.Reader, "snapshot", "if self.lost is not None:", "if False:")
