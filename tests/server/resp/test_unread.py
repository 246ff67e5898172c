"""What becomes of a client that does not read what it asked for, by whatever way its answer came."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest
import uvloop

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import TlsConfig
from slate_engine.server.resp.listener import Listener
from slate_engine.server.resp.service import RespLimits
from slate_engine.server.tls import Certificates
from slate_engine.store.memory import MemoryStore
from tests.server.resp.conftest import Server, serve
from tests.server.test_tls import issue

VALUE = b"x" * (6 << 20)


async def lazy(server: Server) -> socket.socket:
    """A client whose machine takes little that it does not read."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await asyncio.get_running_loop().sock_connect(client, ("127.0.0.1", server.port))
    await until(lambda: server.numbers.clients == 1)
    await asyncio.sleep(0.05)  # until it is waited for: then what is in memory is answered at once
    return client


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(8):
        while not true():  # noqa: ASYNC110 - nobody tells of it
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "asked",
    [b"GET big\r\n", b"get big\r\n", b"SET a 1\r\nGET big\r\n", b"GET big\r\n" * 12],
    ids=["at once", "by the task", "when a write is durable", "much of it"],
)
async def test_who_reads_nothing_is_cut_off(db: Db, asked: bytes) -> None:
    await db.put(b"big", VALUE)
    running = await serve(db, limits=RespLimits(output_bytes=8 << 20, unread_seconds=0.2))
    client = await lazy(running)
    await asyncio.get_running_loop().sock_sendall(client, asked)
    await until(lambda: running.numbers.clients == 0)
    assert running.numbers.refusals == ["output"]
    client.close()
    await running.listener.close(1.0)


@pytest.mark.parametrize(
    ("asked", "idle_seconds"), [(b"GET big\r\n", 0.1), (b"GET big\r\nQUIT\r\n", 0)], ids=["sent away", "goodbye"]
)
async def test_who_leaves_and_reads_nothing_is_cut_off(db: Db, asked: bytes, idle_seconds: float) -> None:
    """However little is unread: the socket would stay open for it for ever."""
    await db.put(b"big", VALUE)
    running = await serve(db, limits=RespLimits(idle_seconds=idle_seconds, unread_seconds=0.2))
    client = await lazy(running)
    await asyncio.get_running_loop().sock_sendall(client, asked)
    await until(lambda: running.numbers.clients == 0)
    client.close()
    await running.listener.close(1.0)


@pytest.mark.parametrize("idle_seconds", [0, 0.1])
async def test_who_reads_slowly_gets_it_all(db: Db, idle_seconds: float) -> None:
    await db.put(b"big", VALUE)
    limits = RespLimits(output_bytes=4 << 20, unread_seconds=1.5, idle_seconds=idle_seconds)
    running = await serve(db, limits=limits)
    client, loop = await lazy(running), asyncio.get_running_loop()
    await loop.sock_sendall(client, b"GET big\r\n")
    got, wanted, pause_at = 0, len(VALUE) + 12, 0
    while got < wanted:
        if got >= pause_at:
            pause_at += 1 << 20
            await asyncio.sleep(0.6)
        piece = await asyncio.wait_for(loop.sock_recv(client, 1 << 16), 5)
        assert piece, "it was cut off"
        got += len(piece)
    assert running.numbers.refusals == []
    client.close()
    await running.listener.close(1.0)


@pytest.mark.parametrize("word", [b"GET", b"get", b"GETDEL", b"GETSET"])
async def test_one_value_is_answered_however_large_it_is(db: Db, word: bytes) -> None:
    await db.put(b"big", VALUE)
    running = await serve(db, limits=RespLimits(output_bytes=1 << 20))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    await asyncio.sleep(0.05)
    writer.write(word + b" big" + b" 1" * (word == b"GETSET") + b"\r\n")
    answer = await asyncio.wait_for(reader.readexactly(len(VALUE) + 12), 5)
    assert answer == b"$%d\r\n%b\r\n" % (len(VALUE), VALUE)
    assert running.numbers.refusals == []
    writer.close()
    await running.listener.close(1.0)


def test_who_reads_nothing_over_tls_is_cut_off(tmp_path: Path) -> None:
    """With uvloop, which serves in earnest: what its TLS has handed on to the socket, it does not count."""
    certificate, key = issue(tmp_path, "server")

    def asking(port: int) -> ssl.SSLSocket:
        plain = socket.socket()
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        plain.settimeout(10)
        plain.connect(("127.0.0.1", port))
        context = ssl.create_default_context(cafile=str(certificate))
        secured = context.wrap_socket(plain, server_hostname="127.0.0.1")
        secured.sendall(b"GET big\r\n")
        return secured

    async def scenario() -> None:
        db = await DbBuilder("db", ObjectStore.of(MemoryStore(SystemRuntime()))).build()
        await db.put(b"big", VALUE)
        running = await serve(db, limits=RespLimits(output_bytes=8 << 20, unread_seconds=0.2))
        certificates = Certificates.of(TlsConfig(certificate=certificate, key=key), SystemRuntime())
        listener = Listener(running.service, certificates)
        client = await asyncio.to_thread(asking, await listener.start("127.0.0.1", 0))
        await until(lambda: running.numbers.refusals == ["output"])
        await until(lambda: running.numbers.clients == 0)
        client.close()
        for each in (listener, running.listener):
            await each.close(1.0)
        await db.shutdown()

    uvloop.run(scenario())


def test_what_was_to_be_said_to_who_has_gone_is_dropped() -> None:
    """uvloop does not take a word for a socket that is closed."""

    async def scenario() -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        db = await DbBuilder("db", ObjectStore.of(MemoryStore(SystemRuntime()))).build()
        running = await serve(db)
        _, writer = await asyncio.open_connection("127.0.0.1", running.port)
        await until(lambda: running.numbers.clients == 1)
        [connection] = running.listener._connections
        connection.abort()
        await until(lambda: running.numbers.clients == 0)
        connection._send(b"+OK\r\n")
        await asyncio.sleep(0.05)
        assert complaints == []
        writer.close()
        await running.listener.close(1.0)
        await db.shutdown()

    uvloop.run(scenario())
