"""Clones: a crash at every single request."""

from __future__ import annotations

import pytest

from tests.simulation import planted_admin
from tests.simulation.network import Moment
from tests.simulation.scenes.clones import CrashedClone
from tests.simulation.world import Broken, explore

AT_ONCE, TOO_LATE = 0.0, 400.0
"""The parent keeps what a first attempt began with for 300 seconds."""


def count_requests() -> int:
    play = explore(CrashedClone(0, Moment.BEFORE, AT_ONCE), 0)
    victim = next(process for process in play.world.processes if process.name == "victim")
    return victim.link.requests


@pytest.mark.parametrize("pause", [AT_ONCE, TOO_LATE], ids=["at once", "too late"])
@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
def test_a_clone_that_crashes_at_any_request_is_made_by_the_next(moment: Moment, pause: float) -> None:
    """One good clone, and one checkpoint for it; whatever request was the last of who began it."""
    requests = count_requests()
    assert requests > 25, "the clone has become too cheap to show anything"
    for request in range(1, requests + 1):
        explore(CrashedClone(request, moment, pause), 0)


def _crash_everywhere() -> None:
    with planted_admin.clones_open_before_their_log_is_there():
        for request in range(1, 40):
            explore(CrashedClone(request, Moment.BEFORE, AT_ONCE), 0)


def test_it_notices_a_clone_that_opens_too_early() -> None:
    with pytest.raises(Broken):
        _crash_everywhere()
