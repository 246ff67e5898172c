"""What is in memory is answered in the call that brought the request; nothing is overtaken by it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.enums import FlushType, IsolationLevel
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.options import FlushOptions
from slate_engine.lsm.snapshot import UNREAD
from slate_engine.runtime import SystemRuntime
from slate_engine.server.resp import connection
from slate_engine.server.resp.session import Session
from slate_engine.store.memory import MemoryStore
from tests.server.resp.conftest import Server
from tests.server.resp.test_durability import HeldStore, held, server

__all__ = ["held", "server"]


class Line:
    """A client that says and reads bytes as they are."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def say(self, text: str) -> None:
        self._writer.write(text.encode())

    async def read(self, text: str) -> None:
        async with asyncio.timeout(10):
            assert await self._reader.readexactly(len(text)) == text.encode()

    async def silent(self) -> bool:
        try:
            await asyncio.wait_for(self._reader.read(1), 0.3)
        except TimeoutError:
            return True
        return False

    def close(self) -> None:
        self._writer.close()


@pytest.fixture
async def line(server: Server) -> AsyncIterator[Line]:
    opened = Line(*await asyncio.open_connection("127.0.0.1", server.port))
    opened.say("SET a 1\r\n")
    await opened.read("+OK\r\n")
    yield opened
    opened.close()


async def test_a_read_needs_no_task(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(session: Session, request: list[bytes]) -> None:
        raise AssertionError("a task was woken for it")

    monkeypatch.setattr(connection, "execute", refused)
    line.say("GET a\r\nGET none\r\nGET a\r\n")
    await line.read("$1\r\n1\r\n$-1\r\n$1\r\n1\r\n")


async def test_replies_keep_the_order_of_the_requests(line: Line) -> None:
    line.say("GET a\r\nSET a 2\r\nGET a\r\nPING\r\nGET a b\r\nGET a\r\n")
    await line.read(
        "$1\r\n1\r\n+OK\r\n$1\r\n2\r\n+PONG\r\n-ERR wrong number of arguments for 'get' command\r\n$1\r\n2\r\n"
    )


async def test_a_read_does_not_overtake_a_write_that_is_not_stored_yet(line: Line, held: HeldStore) -> None:
    held.free.clear()
    line.say("SET a 2\r\n")
    await asyncio.sleep(0.1)
    line.say("GET a\r\n")
    assert await line.silent()
    held.free.set()
    await line.read("+OK\r\n$1\r\n2\r\n")


async def test_what_comes_in_pieces_is_put_together(line: Line) -> None:
    for piece in ("GET a\r\n*2\r\n$3\r\nGE", "T\r\n$1\r\n", "a\r\nGET", " a\r\n"):
        line.say(piece)
        await asyncio.sleep(0.02)
    await line.read("$1\r\n1\r\n" * 3)


async def test_an_unintelligible_request_is_refused_after_the_others_were_answered(line: Line) -> None:
    line.say("GET a\r\n")
    await line.read("$1\r\n1\r\n")
    line.say("*1\r\nnonsense\r\n")
    await line.read("-ERR Protocol error: expected '$', got b'n'\r\n")


async def test_a_transaction_takes_reads_in(line: Line) -> None:
    line.say("MULTI\r\nGET a\r\n")
    await line.read("+OK\r\n+QUEUED\r\n")
    line.say("GET a\r\n")
    await line.read("+QUEUED\r\n")
    line.say("EXEC\r\n")
    await line.read("*2\r\n$1\r\n1\r\n$1\r\n1\r\n")


async def reopened(store: MemoryStore) -> Db:
    return await DbBuilder("db", ObjectStore.of(store)).build()


async def test_only_what_is_in_memory_is_peeked_at() -> None:
    store = MemoryStore(SystemRuntime())
    db = await reopened(store)
    await db.put(b"a", b"1")
    found = db.peek(b"a")
    assert found is not None
    assert found is not UNREAD
    assert found.value == b"1"
    assert db.peek(b"b") is None
    await db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
    await db.shutdown()
    db = await reopened(store)
    assert db.peek(b"a") is UNREAD
    assert await db.get(b"a") == b"1"
    assert db.peek(b"a") == found
    transaction = await db.begin(IsolationLevel.SERIALIZABLE_SNAPSHOT)
    assert transaction.peek(b"a") == found
    await transaction.put(b"a", b"2")
    assert transaction.peek(b"a") is UNREAD
    await db.put(b"a", b"3")
    await transaction.put(b"c", b"3")
    with pytest.raises(Exception, match="conflict"):
        await transaction.commit()
    await db.shutdown()
