"""A failure is told so that a person can follow it: how to see it again, and a story without what did not matter."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.simulation import planted
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.shrink import prove, shrink, tell
from tests.simulation.world import Broken, explore

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def first_broken(scene: str) -> Broken:
    for seed in range(40):
        try:
            explore(SCENES[scene][0], seed)
        except Broken as broken:
            return broken
    raise AssertionError("nothing went wrong")


def test_a_story_becomes_short_and_stays_true() -> None:
    scene = SCENES["storms"][0]
    with planted.sequence_numbers_begin_again():
        long = first_broken("storms")
        short, without = shrink(scene, long, replays=40)
        assert long.world is not None
        assert short.world is not None
        before, after = len(list(long.world.injector.happened)), len(list(short.world.injector.happened))
        assert after < before / 2, f"of {before} things that happened {after} are left"
        assert len(short.world.trace) < len(long.world.trace)
        # It is the run that it says it is.
        with pytest.raises(Broken) as again:
            explore(scene, long.seed, without)
        assert again.value.world is not None
        assert again.value.world.record == short.world.record
    story = tell(short, without)
    assert f"python -m tests.simulation 'storms' {long.seed} --shrink" in story
    assert "NotModified" not in story
    assert "opened" in story


def test_whoever_proves_is_told_the_short_story() -> None:
    with planted.acknowledged_before_stored():
        seed = first_broken("storms").seed
        with pytest.raises(AssertionError, match="what is needed") as told:
            prove(SCENES["storms"][0], seed, replays=10)
    assert "acknowledged" in str(told.value)


def test_the_command_plays_it_again() -> None:
    command = [sys.executable, "-m", "tests.simulation", "crash/plain/9/after", "0", "--story"]
    played = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=True)
    assert "crash" in played.stdout
    assert "victim" in played.stdout
