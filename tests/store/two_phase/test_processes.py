"""Real processes: several that race on one SQLite file, and a database server that is killed under its clients."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from slate_engine.errors import UnavailableError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.boundary import Boundary
from slate_engine.store.numbered import NumberedObjects
from slate_engine.store.protocol import Conflict
from slate_engine.store.two_phase import TwoPhaseStore, open_transactions
from slate_engine.store.two_phase.record import is_staged
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.store.two_phase.doubles import Interleaved, LyingStore
from tests.store.two_phase.rival import SECONDS_PER_ROUND

ROOT = Path(__file__).parents[3]
RUNTIME = SystemRuntime()
PROCESSES, ROUNDS = 4, 60


async def test_processes_race_on_one_sqlite_file(tmp_path: Path) -> None:
    folder = tmp_path / "bucket"
    folder.mkdir()
    start = time.time() + 3.0  # when all of them are up
    words = [str(folder), f"sqlite:///{tmp_path}/transactions.db", str(start), str(ROUNDS)]
    rivals = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.store.two_phase.rival", *words, cwd=ROOT, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(PROCESSES)
    ]
    async with asyncio.timeout(start - time.time() + ROUNDS * SECONDS_PER_ROUND + 120):
        answers = await asyncio.gather(*(rival.communicate() for rival in rivals))
    assert [rival.returncode for rival in rivals] == [0] * PROCESSES
    won = {
        f"{int(number):020d}.manifest": str(rival.pid).encode()
        for rival, (said, _) in zip(rivals, answers, strict=True)
        for number in said.split()
    }
    assert sum(len(said.split()) for said, _ in answers) == ROUNDS, "each name has one winner"
    assert {path.name: path.read_bytes() for path in (folder / "db" / "manifest").glob("*.manifest")} == won
    assert len(set(won.values())) > 1, "no race took place"
    assert not [path for path in folder.rglob("*") if is_staged(path.relative_to(folder).as_posix())]


@pytest.mark.servers
@pytest.mark.parametrize("kind", [MariaDB, Postgres])
async def test_a_database_server_that_is_killed(kind: Callable[[], MariaDB | Postgres]) -> None:
    """Kill it in the middle of many writes, start it again: what was acknowledged is there, in one line of succession."""
    server = kind()
    bucket = LyingStore(RUNTIME, name="bucket")
    acknowledged: list[bytes] = []
    moments = {30: asyncio.Event(), 90: asyncio.Event()}
    try:
        server.start()

        async def writer(number: int) -> None:
            store = TwoPhaseStore(Interleaved(bucket, number), open_transactions(server.url, RUNTIME), RUNTIME)
            manifests = NumberedObjects(
                store, "db/manifest", "manifest", Boundary(store, "db", "manifest", RUNTIME), RUNTIME
            )
            for count in range(40):
                token = b"%d.%d" % (number, count)
                while True:
                    try:
                        newest = await manifests.latest()
                        state = bytes(newest.data) if newest else b""
                        if token in state.split():
                            break
                        await manifests.create_next(newest.id if newest else 0, state + b" " + token)
                        acknowledged.append(token)
                        if len(acknowledged) in moments:
                            moments[len(acknowledged)].set()
                        break
                    except Conflict:
                        continue
                    except UnavailableError:
                        await asyncio.sleep(0.1)
            await store.close()

        async def assassin() -> None:
            for moment in moments.values():
                await moment.wait()
                await asyncio.to_thread(server.kill)
                await asyncio.sleep(0.3)
                await asyncio.to_thread(server.start)

        async with asyncio.timeout(120):
            await asyncio.gather(assassin(), *(writer(number) for number in range(4)))
        store = TwoPhaseStore(bucket, open_transactions(server.url, RUNTIME), RUNTIME)
        await store.recover()
        newest = await NumberedObjects(store, "db/manifest", "manifest", None, RUNTIME).latest()
        assert newest is not None
        tokens = bytes(newest.data).split()
        assert len(tokens) == len(set(tokens)) == 160 == newest.id
        assert set(acknowledged) <= set(tokens)
        await store.close()
    finally:
        server.remove()
