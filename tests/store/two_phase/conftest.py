"""A bucket that lies with a table in memory, and the real tables: SQLite in the fast suite, servers with ``-m servers``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store.two_phase import TransactionStore, TwoPhaseStore, open_transactions
from tests.servers.dynamodb import CREDENTIALS, DynamoDBLocal
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.store.two_phase.doubles import LyingStore, ManualRuntime, MemoryTransactions

SERVERS = ("mariadb", "postgres", "dynamodb")
ALL = ("sqlite", *(pytest.param(name, marks=pytest.mark.servers) for name in SERVERS))


@pytest.fixture
def clock() -> ManualRuntime:
    return ManualRuntime()


@pytest.fixture
def bucket(clock: ManualRuntime) -> LyingStore:
    return LyingStore(clock, name="bucket")


@pytest.fixture
def table() -> MemoryTransactions:
    return MemoryTransactions()


@pytest.fixture
def store(bucket: LyingStore, table: MemoryTransactions, clock: ManualRuntime) -> TwoPhaseStore:
    return TwoPhaseStore(bucket, table, clock)


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDB]:
    server = MariaDB()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.remove()


@pytest.fixture(scope="session")
def dynamodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DynamoDBLocal]:
    with DynamoDBLocal(tmp_path_factory.mktemp("dynamodb")) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(params=ALL)
def transactions_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A url of each kind. The table is shared by all tests of a server, as it is by all databases in production."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/transactions.db"
    url: str = request.getfixturevalue(request.param).url
    return url


@pytest.fixture
async def connect(transactions_url: str) -> AsyncIterator[Callable[[], TransactionStore]]:
    """Makes one more client of the store, as another process would."""
    opened: list[TransactionStore] = []

    def another() -> TransactionStore:
        opened.append(open_transactions(transactions_url, SystemRuntime()))
        return opened[-1]

    yield another
    for store in opened:
        await store.close()
