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

ROOT = Path(__file__).parents[3]
RUNTIME = SystemRuntime()
PROCESSES, ROUNDS = 4, 60


async def test_processes_race_on_one_sqlite_file(tmp_path: Path) -> None:
    """On a busy machine one process may be ahead of all others in every round: then they race again."""
    for attempt in range(10):
        folder = tmp_path / f"bucket-{attempt}"
        folder.mkdir()
        winners = await winners_of_a_race(folder, f"sqlite:///{tmp_path}/transactions-{attempt}.db")
        files = {path.name: path.read_bytes() for path in (folder / "db" / "manifest").glob("*.manifest")}
        assert files == {f"{number:020d}.manifest": winner for number, winner in winners.items()}
        assert not [path for path in folder.rglob("*") if is_staged(path.relative_to(folder).as_posix())]
        if len(set(winners.values())) > 1:
            return
    raise AssertionError("no race took place")


async def winners_of_a_race(folder: Path, url: str) -> dict[int, bytes]:
    """What the winner of each round wrote: its process id."""
    rivals = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.store.two_phase.rival", str(folder), url, str(ROUNDS),
            cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(PROCESSES)
    ]  # fmt: skip
    async with asyncio.timeout(240):
        for rival in rivals:
            assert rival.stdout is not None
            assert await rival.stdout.readline() == b"ready\n"
        start = b"%f\n" % (time.time() + 0.5)
        answers = await asyncio.gather(*(rival.communicate(start) for rival in rivals))
    assert [rival.returncode for rival in rivals] == [0] * PROCESSES
    won = [(int(number), str(rival.pid).encode()) for rival, (said, _) in zip(rivals, answers, strict=True)
           for number in said.split()]  # fmt: skip
    assert sorted(number for number, _ in won) == list(range(ROUNDS)), "each name has one winner"
    return dict(won)


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
