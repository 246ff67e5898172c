"""Every scene, with many seeds. A failure is told by its shortest story, with the command that plays it again."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.share import share_of
from tests.simulation.network import Moment
from tests.simulation.scenes.crashes import KINDS, crashes
from tests.simulation.scenes.repertoire import MOMENTS, SCENES, fast_suite
from tests.simulation.shrink import prove

CHUNK = 20
ENOUGH = 2000
REGRESSIONS = [
    # A collector that was slower than the one that deleted the database left a file where it had been.
    ("graces", 16),
    ("deletions", 66),
    # Of two who delete a database at the same time the slower one was told to stop everything.
    ("graces", 4),
    ("graces", 7),
    # A reader that found something new at every look never renewed the leases of those who still read older states.
    ("leases", 0),
    # Who read the newest state slowly was told of a loss when the log had been flushed and collected meanwhile.
    ("bank", 1020),
    ("tables", 1068),
    # The same for a reader that follows the newest state: it took the gap for the end of the log.
    ("collectors", 12),
    # Of two who undeleted a database that was deleted for good, one brought back a manifest of nothing.
    ("deletions", 76),
    # Who undeleted what was just deleted for good, and died before he looked, left a manifest of nothing that looked alive.
    ("deletions", 1137),
    # The same, if it was his last request that was refused.
    ("deletions", 188),
    ("deletions", 200171),
    # Who destroyed or undeleted a database, and was slower than its grace, was told to stop everything.
    ("graces", 100020),
    # The same for a collector, when a manifest came late behind another's deletion.
    ("families", 100014),
    # And for the slower one of two who delete it, if the boundary went while he looked.
    ("graces", 100127),
    ("graces", 100149),
    # Who looked at the newest state once took a gap that a collector had left for the end of the log.
    ("bank", 300010),
    # A writer whose commit arrived when all was gone took its own manifest for a sign that only the boundary was lost.
    ("evictions", 14),
    # A flush, a commit or a list of compactions that was cancelled and arrived all the same stood there alone.
    ("evictions", 66),
    ("evictions", 248),
    ("evictions", 340),
    # A compactor that stood still while it started, as the database was deleted, began a list of compactions of nothing.
    ("evictions", 311),
    # A follower took a live database for a deleted one: it read when a manifest was copied to its place, not when it was
    # committed.
    ("tables", 7),
    ("tables", 22),
]
"""Seeds that have found something; most show it only until the scene changes, and then what they found needs a test of its
own in the room that was at fault."""
LONGER = 2
"""So many times as many seeds as in the fast suite: scenes that take longer are played less often there, too."""


def chunks(times: int) -> Iterator[range]:
    """Seeds in portions, so that several processes can share them."""
    for first in range(0, times, CHUNK):
        yield range(first, min(first + CHUNK, times))


@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_request(kind: str) -> None:
    """The one who opens the database next has everything that was acknowledged, whatever request was the last."""
    for crash in crashes(kind, MOMENTS[kind]):
        prove(crash, 0)


def test_thousands_of_schedules_are_played_at_every_commit() -> None:
    assert sum(1 for _ in fast_suite()) >= ENOUGH


@pytest.mark.parametrize(
    ("name", "seeds"), [(name, seeds) for name, (_, times) in SCENES.items() for seeds in chunks(times)], ids=str
)
def test_scene(name: str, seeds: range) -> None:
    for seed in seeds:
        prove(SCENES[name][0], seed)


@pytest.mark.parametrize(("name", "seed"), REGRESSIONS)
def test_what_was_found_before(name: str, seed: int) -> None:
    prove(SCENES[name][0], seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("name", SCENES)
def test_scene_for_long(name: str) -> None:
    scene, times = SCENES[name]
    for seed in range(1000, 1000 + share_of(LONGER * times)):
        prove(scene, seed)


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS)
def test_a_crash_at_any_request_with_other_chances(kind: str) -> None:
    for seed in range(1, 1 + share_of(5)):
        for crash in crashes(kind, Moment):
            prove(crash, seed)
