"""Strangers, and clients that ask for too much."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.exceptions

from slate_engine.api.db import Db
from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.server import gate
from slate_engine.server.resp.requests import Limits
from slate_engine.server.resp.service import RespLimits
from tests.server.resp.conftest import Server, serve


@pytest.fixture
def password_file(tmp_path: Path) -> Path:
    path = tmp_path / "password"
    path.write_text("first\n")
    return path


@pytest.fixture
async def guarded(db: Db, password_file: Path) -> AsyncIterator[Server]:
    running = await serve(db, password_file=password_file)
    yield running
    await running.listener.close(1.0)


async def test_a_stranger_gets_nothing(guarded: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    for words in (
        b"GET a",
        b"SET a 1",
        b"INFO",
        b"KEYS *",
        b"PING",
        b"CLIENT LIST",
        b"MULTI",
        b"EXEC",
        b"SLATE.STATUS",
    ):
        writer.write(words + b"\r\n")
        assert await reader.readline() == b"-NOAUTH Authentication required.\r\n"
    writer.write(b"AUTH wrong\r\n")
    assert await reader.readline() == b"-WRONGPASS invalid username-password pair or user is disabled.\r\n"
    assert guarded.numbers.refusals == ["password"]
    writer.write(b"AUTH first\r\nPING\r\n")
    assert await reader.readexactly(12) == b"+OK\r\n+PONG\r\n"
    writer.close()


@pytest.mark.parametrize("protocol", [2, 3])
async def test_the_password_opens(guarded: Server, protocol: int) -> None:
    known = guarded.client(password="first", protocol=protocol)
    assert await known.set("a", "1") is True
    with pytest.raises(redis.exceptions.AuthenticationError, match="invalid username-password"):
        await known.execute_command("AUTH", "somebody", "first")
    await known.aclose()


def test_another_password_without_a_restart(password_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "CHECK_EVERY", 0.0)
    opened = gate.Gate(password_file, SystemRuntime())
    assert opened.admits(b"first")
    password_file.write_text("second\nthird\n")
    assert [opened.admits(secret) for secret in (b"first", b"second", b"third", b"")] == [False, True, True, False]
    password_file.write_text("\n")
    assert opened.admits(b"second"), "an empty file shuts nobody out, and lets nobody in"
    assert not opened.admits(b"")


def test_a_file_without_a_secret_is_refused(tmp_path: Path) -> None:
    empty = tmp_path / "password"
    empty.write_text("\n")
    with pytest.raises(InvalidError, match="holds no secret"):
        gate.Gate(empty, SystemRuntime())


async def test_a_stranger_may_not_send_much(guarded: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    writer.write(b"*2\r\n$4\r\nAUTH\r\n$1000000\r\n")
    assert b"Protocol error" in await reader.readline()
    assert await reader.read() == b""
    writer.close()


async def test_a_stranger_may_not_stay(db: Db, password_file: Path) -> None:
    running = await serve(db, password_file=password_file, limits=RespLimits(stranger_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await running.listener.close(1.0)


async def test_who_resets_is_a_stranger_anew(db: Db, password_file: Path) -> None:
    running = await serve(db, password_file=password_file)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"AUTH first\r\n")
    assert await reader.readline() == b"+OK\r\n"
    [session] = running.service.sessions.values()
    session.opened = session.stranger_since = session.opened - 100
    writer.write(b"RESET\r\n")
    assert await reader.readline() == b"+RESET\r\n"
    await asyncio.sleep(1.5)
    writer.write(b"AUTH first\r\n")
    assert await reader.readline() == b"+OK\r\n", "there was no time to give the password"
    writer.write(b"RESET\r\n")
    assert await reader.readline() == b"+RESET\r\n"
    session.stranger_since -= 100
    writer.write(b"RESET\r\n")
    assert await asyncio.wait_for(reader.read(), 5) == b"+RESET\r\n", "a stranger stays by saying RESET"
    writer.close()
    await running.listener.close(1.0)


async def test_who_resets_may_say_as_little_as_a_stranger(guarded: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", guarded.port)
    for word, answer in ((b"AUTH first", b"+OK\r\n"), (b"RESET", b"+RESET\r\n")):
        writer.write(word + b"\r\n")
        assert await reader.readline() == answer
    writer.write(b"*2\r\n$4\r\nAUTH\r\n$1000000\r\n")
    assert b"Protocol error" in await asyncio.wait_for(reader.readline(), 5)
    writer.close()


async def test_so_many_clients_and_no_more(db: Db) -> None:
    running = await serve(db, limits=RespLimits(clients=2))
    first, second, third = (running.client() for _ in range(3))
    await first.ping()
    await second.ping()
    with pytest.raises(redis.exceptions.ConnectionError, match="max number of clients"):
        await third.ping()
    await first.aclose()
    await asyncio.sleep(0.05)
    assert await running.client().ping() is True
    await second.aclose()
    await running.listener.close(1.0)


async def test_a_request_that_is_too_large(db: Db) -> None:
    running = await serve(db, limits=RespLimits(request=Limits(bytes=10_000)))
    client = running.client()
    assert await client.set("a", "x" * 9_000) is True
    with pytest.raises((redis.exceptions.RedisError, OSError)):
        await client.set("a", "x" * 11_000)
    assert await running.client().strlen("a") == 9_000
    await client.aclose()
    await running.listener.close(1.0)


async def test_a_client_that_does_not_read_harms_nobody(db: Db) -> None:
    running = await serve(db, limits=RespLimits(output_bytes=1 << 18))
    polite = running.client()
    await polite.set("big", "x" * 100_000)
    _, rude = await asyncio.open_connection("127.0.0.1", running.port, limit=1024)
    try:
        for _ in range(50):
            rude.write(b"GET big\r\n" * 20)
        assert await asyncio.wait_for(polite.get("big"), 5) == b"x" * 100_000
        unread = [connection._transport.get_write_buffer_size() for connection in running.listener._connections]
        assert max(unread) < 4 << 20, "what a client does not read piles up"
    finally:
        rude.close()
        await polite.aclose()
        await running.listener.close(1.0)


async def test_who_says_nothing_is_sent_away(db: Db) -> None:
    running = await serve(db, limits=RespLimits(idle_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await running.listener.close(1.0)


async def test_the_end_answers_what_was_asked(db: Db) -> None:
    running = await serve(db, runtime=SystemRuntime())
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"".join(b"SET key:%d v\r\n" % number for number in range(500)))
    await reader.readexactly(5)
    await running.listener.close(5.0)
    assert await reader.read() == b"+OK\r\n" * 499
    writer.close()
