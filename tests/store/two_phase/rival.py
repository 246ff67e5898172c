"""A process that races with others for the same names: ``python -m tests.store.two_phase.rival FOLDER URL ROUNDS``. It says
``ready``, and reads the time of the first round from its standard input."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from pathlib import Path

from slate_engine.runtime import SystemRuntime
from slate_engine.store.files import FileStore
from slate_engine.store.protocol import CREATE, OVERWRITE, Buffer, Conflict, PutMode
from slate_engine.store.two_phase import TwoPhaseStore, open_transactions

SECONDS_PER_ROUND = 0.03


class LyingFiles(FileStore):
    """A folder that ignores the condition of a write."""

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        return await super().put(key, data, OVERWRITE)


async def race(folder: Path, url: str, start: float, rounds: int) -> None:
    runtime = SystemRuntime()
    store = TwoPhaseStore(LyingFiles(folder, runtime), open_transactions(url, runtime), runtime)
    for number in range(rounds):
        await asyncio.sleep(max(0.0, start + number * SECONDS_PER_ROUND - time.time()))
        try:
            await store.put(f"db/manifest/{number:020d}.manifest", b"%d" % os.getpid(), CREATE)
        except Conflict:
            continue
        print(number, flush=True)
    await store.close()


if __name__ == "__main__":
    print("ready", flush=True)
    asyncio.run(race(Path(sys.argv[1]), sys.argv[2], float(sys.stdin.readline()), int(sys.argv[3])))
