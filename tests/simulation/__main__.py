"""Play scenes by hand: ``python -m tests.simulation SCENE [SEED [COUNT]]``.

With one seed, prints the fingerprint of the run, or what went wrong with the last events; ``--story`` prints all events.
With a count, plays that many seeds and says how many runs a minute that were. Without anything, measures every scene.
"""

from __future__ import annotations

import argparse
import logging
import time

from tests.simulation.scenes.repertoire import SCENES, Scene
from tests.simulation.world import Broken, explore


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation")
    parser.add_argument("scene", nargs="?", choices=[*SCENES])
    parser.add_argument("seed", nargs="?", type=int, default=0)
    parser.add_argument("count", nargs="?", type=int, default=1)
    parser.add_argument("--story", action="store_true")
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    if given.scene is None:
        return max(measure(scene, 0, 50) for scene, _ in SCENES.values())
    scene = SCENES[given.scene][0]
    if given.count > 1:
        return measure(scene, given.seed, given.count)
    play = explore(scene, given.seed)
    if given.story:
        print(play.world.story(len(play.world.trace)))
    print(play.world.digest)
    return 0


def measure(scene: Scene, first: int, count: int) -> int:
    broken, started, cpu = 0, time.monotonic(), time.process_time()
    for seed in range(first, first + count):
        try:
            explore(scene, seed)
        except Broken as error:
            broken += 1
            print(str(error).partition("\n")[0])
    seconds, cpu = time.monotonic() - started, time.process_time() - cpu
    rate = f"{60 * count / seconds:.0f} a minute, {60 * count / cpu:.0f} a minute of processor time"
    print(f"{scene.__name__}: {count} runs, {broken} broken; {rate}", flush=True)
    return int(broken > 0)


if __name__ == "__main__":
    raise SystemExit(main())
