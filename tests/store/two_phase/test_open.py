"""Urls of transactional stores: what they mean, what is wrong with them, and that they keep their secrets."""

from __future__ import annotations

import asyncio
import builtins
import logging
import sys
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from slate_engine.errors import Error, InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.protocol import Denied, StoreUnavailable
from slate_engine.store.two_phase import open_transactions
from slate_engine.store.two_phase.record import intent
from tests.servers.process import free_port

SECRET = "do-not-print-this"
RUNTIME = SystemRuntime()
NOBODY_THERE = [
    "mysql://me:{secret}@127.0.0.1:{port}/db",
    "postgresql://me:{secret}@127.0.0.1:{port}/db",
    "dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:{port}",
]


async def failure_of(url: str) -> Error:
    """How a call to a store that cannot work fails."""
    store = open_transactions(url, RUNTIME)
    assert SECRET not in repr(store)
    assert SECRET not in repr(store._inner)  # type: ignore[attr-defined]
    assert SECRET not in store.url
    try:
        with pytest.raises(Error) as caught:
            await store._inner.put_if_absent(intent("s3://bucket/key", b"", RUNTIME))  # type: ignore[attr-defined]
        return caught.value
    finally:
        await store.close()


def everything_said(error: BaseException, logged: str) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + logged


@pytest.mark.parametrize("url", NOBODY_THERE)
async def test_nobody_there(url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "slate_engine")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    error = await failure_of(url.format(secret=SECRET, port=free_port()))
    assert isinstance(error, StoreUnavailable)
    assert error.retryable
    assert SECRET not in everything_said(error, caplog.text)


@pytest.mark.servers
@pytest.mark.parametrize("server", ["mariadb", "postgres"])
async def test_wrong_password(server: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture) -> None:
    right: str = request.getfixturevalue(server).url
    error = await failure_of(right.replace("slate-test-secret", SECRET))
    assert isinstance(error, Denied)
    assert "password" in str(error)
    assert SECRET not in everything_said(error, caplog.text)


@pytest.mark.servers
async def test_no_such_table(request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue("dynamodb").url
    error = await failure_of(url.replace("slate-writes", "no-such-table").replace("&create=true", ""))
    assert isinstance(error, InvalidError)
    assert "create" in str(error)


@pytest.mark.servers
@pytest.mark.parametrize("server", ["mariadb", "postgres"])
async def test_no_such_database(server: str, request: pytest.FixtureRequest) -> None:
    url: str = request.getfixturevalue(server).url
    error = await failure_of(f"{url}_missing")
    assert isinstance(error, InvalidError | Denied)


async def test_no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    error = await failure_of(f"dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:{free_port()}")
    assert isinstance(error, Denied)
    error = await failure_of("dynamodb://table")
    assert isinstance(error, InvalidError)
    assert "region" in str(error)


@pytest.mark.parametrize(
    ("url", "hint"),
    [
        ("redis://localhost", "sqlite:///path"),
        ("", "sqlite:///path"),
        (f"redis://me:{SECRET}@localhost", "sqlite:///path"),
        ("sqlite://", "file"),
        ("sqlite:///:memory:", "file"),
        ("sqlite:////no/such/folder/x.db", "folder"),
        (f"mysql://me:{SECRET}@localhost", "database"),
        (f"mysql://me:{SECRET}@localhost:port/db", "parse"),
        (f"postgresql://me:{SECRET}@localhost/db?table=a-b", "table"),
        ("dynamodb://", "table"),
        ("dynamodb://table/more", "table"),
        (f"dynamodb://table?secret_access_key={SECRET}", "region"),
        (f"dynamodb://me:{SECRET}@table", "table"),
    ],
)
def test_what_is_wrong_with_a_url(url: str, hint: str) -> None:
    with pytest.raises(InvalidError, match=hint) as caught:
        open_transactions(url, RUNTIME)
    assert SECRET not in everything_said(caught.value, "")


@pytest.mark.parametrize(
    ("url", "package", "extra"),
    [
        ("sqlite:///x.db", "sqlalchemy", "sql"),
        ("sqlite:///x.db", "aiosqlite", "sql"),
        ("mysql://localhost/db", "aiomysql", "sql"),
        ("postgresql://localhost/db", "asyncpg", "sql"),
        ("dynamodb://table", "aiobotocore", "dynamodb"),
    ],
)
def test_names_the_extra_that_is_not_installed(
    url: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    real = builtins.__import__

    def without(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)
        return real(name, globals, locals, fromlist, level)

    for name in ("sql", "dynamodb"):
        monkeypatch.delitem(sys.modules, f"slate_engine.store.two_phase.{name}", raising=False)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InvalidError) as caught:
        open_transactions(url, RUNTIME)
    assert f"slatekeeper[{extra}]" in str(caught.value)
    assert package in str(caught.value)


async def test_sqlite_is_durable_and_shared(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/transactions.db"
    stores = [open_transactions(url, RUNTIME) for _ in range(4)]
    records = [intent(f"s3://bucket/{number}", b"", RUNTIME) for number in range(40)]
    # All of them make the table at once.
    await asyncio.gather(*(stores[n % 4].put_if_absent(record) for n, record in enumerate(records)))
    for store in stores:
        assert [r async for page in store.list("s3://bucket/", committed=False) for r in page] == sorted(
            records, key=lambda record: record.destination
        )
        async with store._inner._engine.connect() as connection:  # type: ignore[attr-defined]
            assert (await connection.exec_driver_sql("PRAGMA journal_mode")).scalar() == "wal"
            assert (await connection.exec_driver_sql("PRAGMA synchronous")).scalar() == 2
        await store.close()


async def test_another_table(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/transactions.db"
    one, other = open_transactions(url, RUNTIME), open_transactions(f"{url}?table=others", RUNTIME)
    record = intent("s3://bucket/1", b"", RUNTIME)
    assert await one.put_if_absent(record) is None
    assert await other.put_if_absent(record) is None
    assert await one.get(record.destination) == record
    await one.close()
    await other.close()


async def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "transactions.db"
    path.write_bytes(b"something else entirely" * 100)
    error = await failure_of(f"sqlite:///{path}")
    assert isinstance(error, StoreUnavailable)
    assert not error.retryable
    assert "file" in str(error)
