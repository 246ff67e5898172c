"""Clones: a crash at every single request."""

from __future__ import annotations

import pytest

from tests.simulation.network import Moment
from tests.simulation.scenes.clones import crashed_clones
from tests.simulation.scenes.repertoire import PAUSES
from tests.simulation.shrink import prove


@pytest.mark.parametrize("pause", PAUSES, ids=["at once", "too late"])
@pytest.mark.parametrize("moment", Moment, ids=lambda moment: moment.name.lower())
def test_a_clone_that_crashes_at_any_request_is_made_by_the_next(moment: Moment, pause: float) -> None:
    """One good clone, and one checkpoint for it; whatever request was the last of who began it."""
    for scene in crashed_clones(moment, pause):
        prove(scene, 0)
