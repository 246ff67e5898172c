"""What one client may take of the server's memory and time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis.exceptions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slate_engine.api.db import Db
from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.errors import UnavailableError
from slate_engine.runtime import SystemRuntime
from slate_engine.server.resp.catalogue import TABLE
from slate_engine.server.resp.commands import transactions
from slate_engine.server.resp.execution import as_reply, execute
from slate_engine.server.resp.replies import encode, pieces
from slate_engine.server.resp.requests import Limits
from slate_engine.server.resp.service import RespLimits
from slate_engine.store.memory import MemoryStore
from tests.server.resp.conftest import Server, serve
from tests.server.resp.test_requests import packed

LARGE = "x" * 10_000


async def test_a_reply_that_would_be_too_large_is_refused_while_it_is_gathered(db: Db) -> None:
    running = await serve(db, limits=RespLimits(output_bytes=1 << 16))
    client = running.client()
    await client.mset({f"key:{number}": LARGE for number in range(10)})
    names = [f"key:{number}" for number in range(10)]
    assert await client.mget(names[:3]) == [LARGE.encode()] * 3
    for command in (["MGET", *names], ["SLATE.RANGE", "", ""]):
        with pytest.raises(redis.exceptions.ResponseError, match="ask for less at once"):
            await client.execute_command(*command)
    async with client.pipeline(transaction=True) as pipe:
        pipe.set("written", "1")
        for name in names:
            pipe.get(name)
        with pytest.raises(redis.exceptions.ResponseError, match="ask for less at once"):
            await pipe.execute()
    assert await client.get("written") is None, "a transaction without an answer has done nothing"
    await client.aclose()
    await running.listener.close(1.0)


async def test_the_commands_of_a_transaction_are_bounded_in_bytes(db: Db) -> None:
    running = await serve(db, limits=RespLimits(request=Limits(bytes=25_000)))
    client = running.client(single_connection_client=True)
    await client.execute_command("MULTI")
    await client.execute_command("SET", "a", LARGE)
    await client.execute_command("SET", "b", LARGE)
    with pytest.raises(redis.exceptions.ResponseError, match="at most 25000 bytes"):
        await client.execute_command("SET", "c", LARGE)
    with pytest.raises(redis.exceptions.ExecAbortError):
        await client.execute_command("EXEC")
    await client.execute_command("MULTI")
    await client.execute_command("SET", "a", LARGE)
    assert await client.execute_command("EXEC"), "the next one begins at nothing"
    await client.aclose()
    await running.listener.close(1.0)


async def test_half_a_request_is_no_sign_of_life(db: Db) -> None:
    running = await serve(db, limits=RespLimits(idle_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"*2\r\n$3\r\nGET\r\n$5\r\nab")
    assert await asyncio.wait_for(reader.read(), 5) == b""
    writer.close()
    await running.listener.close(1.0)


async def test_who_waits_for_an_answer_is_not_idle(db: Db) -> None:
    running = await serve(db, limits=RespLimits(idle_seconds=0.1))
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(b"DEBUG SLEEP 2.5\r\n")
    assert await asyncio.wait_for(reader.read(5), 8) == b"+OK\r\n"
    writer.close()
    await running.listener.close(1.0)


async def test_a_watch_that_lasts_too_long_is_lost(db: Db) -> None:
    running = await serve(db, limits=RespLimits(watch_seconds=0.1))
    client = running.client(single_connection_client=True)
    await client.execute_command("WATCH", "a")
    await asyncio.sleep(1.5)
    assert db._writer._transactions.min_seq() is None, "what it held is held on"
    await client.execute_command("MULTI")
    await client.execute_command("SET", "a", "1")
    assert await client.execute_command("EXEC") is None
    await client.execute_command("WATCH", "a")
    await client.execute_command("MULTI")
    await client.execute_command("SET", "a", "1")
    assert await client.execute_command("EXEC") == [b"OK"]
    await client.aclose()
    await running.listener.close(1.0)


async def test_what_is_watched_is_bounded(db: Db, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions, "MOST_WATCHED", 5)
    running = await serve(db, limits=RespLimits(request=Limits(bytes=20_000)))
    client = running.client(single_connection_client=True)
    await client.execute_command("WATCH", "a", "b", "c")
    with pytest.raises(redis.exceptions.ResponseError, match="at most 5 keys"):
        await client.execute_command("WATCH", "d", "e", "f")
    await client.execute_command("WATCH", LARGE)
    with pytest.raises(redis.exceptions.ResponseError, match="at most 20000 bytes"):
        await client.execute_command("WATCH", LARGE[:-1] + "y")
    await client.execute_command("UNWATCH")
    await client.execute_command("WATCH", "d", "e", "f")
    await client.aclose()
    await running.listener.close(1.0)


async def test_a_value_is_no_larger_than_a_request(db: Db) -> None:
    """However few bytes ask for it."""
    running = await serve(db, limits=RespLimits(request=Limits(bytes=25_000)))
    client = running.client()
    await client.append("a", LARGE)
    await client.append("a", LARGE)
    for command in (["APPEND", "a", LARGE], ["SETRANGE", "a", "25000", "x"], ["SETRANGE", "new", "536870000", "x"]):
        with pytest.raises(redis.exceptions.ResponseError, match="exceeds maximum allowed size"):
            await client.execute_command(*command)
    assert await client.strlen("a") == 20_000
    assert await client.exists("new") == 0
    async with client.pipeline(transaction=True) as pipe:
        for number in range(10):
            pipe.setrange(f"key:{number}", 20_000, "x")
        done = await pipe.execute(raise_on_error=False)
    assert done[:4] == [20_001] * 4
    assert all(isinstance(each, redis.exceptions.ResponseError) for each in done[5:])
    await client.aclose()
    await running.listener.close(1.0)


@pytest.mark.parametrize(
    "words", [["COMMAND", "INFO"], ["COMMAND", "DOCS"], ["INFO"], ["CLIENT", "LIST", "ID"], ["CONFIG", "GET"]]
)
async def test_what_is_done_in_one_go_is_asked_for_in_few_words(server: Server, words: list[str]) -> None:
    client = server.client()
    with pytest.raises(redis.exceptions.ResponseError, match="too many arguments"):
        await client.execute_command(*words, *(str(number) for number in range(1024)))
    with pytest.raises(redis.exceptions.ResponseError, match="at most 32 patterns"):
        await client.execute_command("CONFIG", "GET", *("x" * 33))
    with pytest.raises(redis.exceptions.ResponseError, match="at most 1024 bytes"):
        await client.execute_command("CONFIG", "GET", "x" * 1025)
    await client.aclose()


async def test_what_a_client_says_of_itself_is_short(server: Server) -> None:
    client = server.client(single_connection_client=True)
    for words in (["CLIENT", "SETNAME"], ["CLIENT", "SETINFO", "LIB-NAME"], ["HELLO", "2", "SETNAME"]):
        await client.execute_command(*words, "x" * 1024)
        with pytest.raises(redis.exceptions.ResponseError, match="cannot have more than 1024 bytes"):
            await client.execute_command(*words, "x" * 1025)
    await client.aclose()


async def test_a_list_of_clients_is_a_bounded_reply(db: Db) -> None:
    running = await serve(db, limits=RespLimits(output_bytes=4096))
    clients = [running.client(single_connection_client=True, client_name="x" * 1000) for _ in range(3)]
    for client in clients:
        await client.ping()
    assert isinstance(await running.at_once(["CLIENT", "LIST", "ID", "1"]), str)
    assert "ask for less" in str(await running.at_once(["CLIENT", "LIST"]))
    for client in clients:
        await client.aclose()
    await running.listener.close(1.0)


async def test_empty_lines_hold_nobody_up(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"\n" * 500_000 + b"PING\r\n")
    assert await asyncio.wait_for(reader.readexactly(7), 5) == b"+PONG\r\n"
    writer.close()


async def test_a_flood_of_requests_lets_others_have_their_turn(server: Server) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"PING\n" * 100_000)
    counted, most = 0, 0
    while counted < 100_000:
        await asyncio.sleep(0)
        before, counted = counted, len(server.numbers.commands)
        most = max(most, counted - before)
    assert most <= 2 * server.service.limits.pipeline
    writer.close()


async def test_a_client_is_told_no_secrets() -> None:
    told = as_reply(UnavailableError("no answer from https://user:hush@store/?sig=hush"))
    assert told.message.startswith("TRYAGAIN ")
    assert "hush" not in told.message


async def test_the_password_may_come_with_what_it_is_for(db: Db, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("first\n")
    running = await serve(db, password_file=password)
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    many = [b"MSET", *(b"%d" % number for number in range(40))]
    writer.write(packed([b"AUTH", b"first"]) + packed([b"SET", b"k", b"v" * 20_000]) + packed(many))
    assert await asyncio.wait_for(reader.readexactly(15), 5) == b"+OK\r\n" * 3
    writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
    writer.write(packed([b"AUTH", b"wrong"]) + packed([b"SET", b"k", b"v" * 20_000]))
    assert b"-WRONGPASS" in (answer := await asyncio.wait_for(reader.read(), 5))
    assert b"Protocol error" in answer
    writer.close()
    await running.listener.close(1.0)


async def test_what_was_asked_before_a_fault_is_answered(server: Server) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(packed([b"SET", b"a", b"1"]) + packed([b"GET", b"a"]) + b"*x\r\n")
    answer = await asyncio.wait_for(reader.read(), 5)
    assert answer == b"+OK\r\n$1\r\n1\r\n-ERR Protocol error: invalid multibulk length\r\n"
    writer.close()


@pytest.mark.parametrize("method", ["POST", "PUT", "GET", "OPTIONS"])
async def test_http_is_not_carried_out(server: Server, method: str, caplog: pytest.LogCaptureFixture) -> None:
    """A web page may have its visitor's browser send a request like this one to any port of the visitor's machine."""
    body = b"SET pwned 1\r\nSET too 1\r\n"
    head = f"{method} / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: {len(body)}\r\n\r\n"
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(head.encode() + body)
        answer = await asyncio.wait_for(reader.read(), 60)
        assert answer.splitlines()[-1].startswith(b"-ERR Protocol error: this is an HTTP request")
        writer.close()
    assert await server.client().exists("pwned", "too") == 0
    assert server.numbers.refusals == ["http", "http"]
    assert [record.levelname for record in caplog.records if "HTTP request" in record.message] == ["WARNING"]


async def test_what_cannot_be_repeated_is_not_for_transactions(server: Server) -> None:
    client = server.client(single_connection_client=True)
    for command in ("SLATE.CHECKPOINT", "SLATE.FLUSH"):
        await client.execute_command("MULTI")
        with pytest.raises(redis.exceptions.ResponseError, match="not allowed inside a transaction"):
            await client.execute_command(command)
        with pytest.raises(redis.exceptions.ExecAbortError):
            await client.execute_command("EXEC")
    with pytest.raises(redis.exceptions.ResponseError, match="not a valid float"):
        await client.execute_command("DEBUG", "SLEEP", "nan")
    assert await client.ping() is True
    await client.aclose()


NESTED = st.recursive(
    st.binary(max_size=4) | st.integers() | st.none(), lambda parts: st.lists(parts, max_size=700), max_leaves=2000
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(NESTED, st.sampled_from([2, 3]))
def test_a_reply_in_pieces_is_the_same(reply: object, version: int) -> None:
    assert b"".join(pieces(reply, version)) == encode(reply, version)  # type: ignore[arg-type]


WORDS = st.sampled_from(
    b"a b 1 -1 0 EX PX NX XX GET * [^a nan inf LIMIT REV COUNT MATCH 9223372036854775807 HELP INFO ID".split()
) | st.sampled_from([b"", b"\xff", b"x" * 2000])
COMMANDS = sorted(TABLE.keys() - {b"DEBUG"})


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(COMMANDS), st.lists(WORDS, max_size=6)), min_size=1, max_size=12))
def test_any_commands_get_an_answer(commands: list[tuple[bytes, list[bytes]]]) -> None:
    """Whatever is asked, in whatever order: a reply, never an exception, and the server serves the next."""

    async def scenario() -> None:
        db = await DbBuilder("db", ObjectStore.of(MemoryStore(SystemRuntime()))).build()
        running = await serve(db, limits=RespLimits(allow_flush=True))

        async def stored(memtable: bool) -> None:
            await db.flush()

        async def kept(name: str | None, lifetime_ms: int | None) -> tuple[str, int]:
            return "id", 1

        running.service.flush, running.service.checkpoint = stored, kept
        session = running.session()
        session.durable = False
        try:
            for name, words in commands:
                outcome = await execute(session, [name, *words])
                assert encode(outcome.reply, session.version)
            await session.leave_transaction()
            session.authenticated = True
            assert (await execute(running.session(), [b"PING"])).reply is not None
        finally:
            await running.listener.close(1.0)
            await db.shutdown()

    asyncio.run(scenario())
