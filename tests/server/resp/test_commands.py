"""Commands with a client that people use, in both versions of the protocol."""

from __future__ import annotations

import asyncio

import pytest
import redis.exceptions
from redis.asyncio import Redis

from slate_engine.api.enums import FlushType
from slate_engine.api.options import FlushOptions
from slate_engine.server.resp.execution import execute
from slate_engine.server.resp.replies import encode
from tests.server.resp.conftest import Server


async def test_strings(client: Redis) -> None:
    assert await client.set("a", "1") is True
    assert await client.get("a") == b"1"
    assert await client.get("b") is None
    assert await client.mget("a", "b", "a") == [b"1", None, b"1"]
    assert await client.mset({"x": "1", "y": "2"}) is True
    assert await client.append("x", "23") == 3
    assert await client.strlen("x") == 3
    assert await client.getset("x", "new") == b"123"
    assert await client.getdel("x") == b"new"
    assert await client.exists("x", "y", "y") == 2
    assert await client.delete("x", "y", "nothing") == 1
    assert await client.setnx("y", "1") is True
    assert await client.setnx("y", "2") is False
    assert await client.msetnx({"y": "3", "z": "3"}) is False
    assert await client.get("z") is None
    assert await client.setrange("r", 3, "abc") == 6
    assert await client.get("r") == b"\0\0\0abc"
    assert await client.getrange("r", -3, -2) == b"ab"
    assert await client.type("r") == b"string"
    assert await client.type("nothing") == b"none"
    assert await client.touch("r", "nothing") == 1


async def test_any_bytes(client: Redis) -> None:
    key, value = bytes(range(256)), b"\r\n$3\r\n\0" * 1000
    await client.set(key, value)
    assert await client.get(key) == value


async def test_set_has_options(client: Redis) -> None:
    assert await client.set("a", "1", xx=True) is None
    assert await client.set("a", "1", nx=True) is True
    assert await client.set("a", "2", nx=True) is None
    assert await client.set("a", "2", get=True) == b"1"
    assert await client.set("a", "3", nx=True, get=True) == b"2"
    assert await client.get("a") == b"2"
    assert await client.set("a", "3", ex=100) is True
    assert 99 <= await client.ttl("a") <= 100
    assert await client.set("a", "4", keepttl=True) is True
    assert 99 <= await client.ttl("a") <= 100
    assert await client.set("a", "5") is True
    assert await client.ttl("a") == -1
    for wrong in (["NX", "XX"], ["EX"], ["EX", "1", "PX", "1"], ["KEEPTTL", "EX", "1"], ["WHAT"]):
        with pytest.raises(redis.exceptions.ResponseError, match="syntax error"):
            await client.execute_command("SET", "a", "1", *wrong)
    with pytest.raises(redis.exceptions.ResponseError, match="invalid expire time in 'set' command"):
        await client.set("a", "1", ex=0)
    with pytest.raises(redis.exceptions.ResponseError, match="not an integer"):
        await client.execute_command("SET", "a", "1", "EX", "1.5")


async def test_numbers(client: Redis) -> None:
    assert await client.incr("n") == 1
    assert await client.incrby("n", 41) == 42
    assert await client.decr("n") == 41
    assert await client.decrby("n", 100) == -59
    assert await client.incrbyfloat("f", 10.5) == 10.5
    assert await client.incrbyfloat("f", -10.5) == 0
    for amount, text in (
        ("0.1", b"0.1"),
        ("0.2", b"0.3"),
        ("1e20", b"100000000000000000000.3"),
        ("-1e20", b"0.3"),
        ("-0.3", b"0"),
        ("1e-18", b"0"),
        ("5.0e3", b"5000"),
    ):
        await client.execute_command("INCRBYFLOAT", "f", amount)
        assert await client.get("f") == text
    for amount in ("1e5000", "nan", " 1", "1_0", "x", "9" * 10_000):
        with pytest.raises(redis.exceptions.ResponseError, match="not a valid float"):
            await client.execute_command("INCRBYFLOAT", "f", amount)
    with pytest.raises(redis.exceptions.ResponseError, match="NaN or Infinity"):
        await client.execute_command("INCRBYFLOAT", "f", "inf")
    await client.set("n", str(2**63 - 1))
    with pytest.raises(redis.exceptions.ResponseError, match="would overflow"):
        await client.incr("n")
    await client.set("n", "abc")
    for value in ("abc", "1.5", " 1", "01", "", "9" * 30):
        await client.set("n", value)
        with pytest.raises(redis.exceptions.ResponseError, match="value is not an integer or out of range"):
            await client.incr("n")


async def test_increments_at_once_all_count(server: Server) -> None:
    clients = [server.client() for _ in range(16)]
    for each in clients:
        await each.ping()

    async def count(each: Redis) -> None:
        for _ in range(20):
            await each.incr("n")

    await asyncio.gather(*map(count, clients))
    assert await clients[0].get("n") == b"320"
    for each in clients:
        await each.aclose()


async def test_expiry(client: Redis) -> None:
    await client.set("a", "1")
    assert await client.ttl("a") == -1
    assert await client.ttl("nothing") == -2
    assert await client.expire("a", 100) is True
    assert await client.expire("nothing", 100) is False
    assert await client.expire("a", 200, nx=True) is False
    assert await client.expire("a", 50, gt=True) is False
    assert await client.expire("a", 200, gt=True) is True
    assert 199 <= await client.ttl("a") <= 200
    assert 0 < await client.pttl("a") <= 200_000
    assert await client.persist("a") is True
    assert await client.persist("a") is False
    assert await client.expire("a", 10, xx=True) is False
    assert await client.expire("a", 10, gt=True) is False
    assert await client.expire("a", 10, lt=True) is True
    assert await client.pexpireat("a", 1) is True, "a time in the past ends the key at once"
    assert await client.exists("a") == 0
    await client.set("b", "1", px=50)
    assert await client.getex("b", persist=True) == b"1"
    assert await client.ttl("b") == -1
    await client.expireat("b", 4_000_000_000)
    assert await client.expiretime("b") == 4_000_000_000
    await client.pexpireat("b", 4_000_000_000_500)
    assert await client.expiretime("b") == 4_000_000_001, "it is rounded, as TTL is"
    with pytest.raises(redis.exceptions.ResponseError, match="not compatible"):
        await client.execute_command("EXPIRE", "b", "1", "NX", "GT")


@pytest.mark.parametrize(
    ("command", "amount"),
    [
        ("EXPIRE", -9223372036854776),
        ("EXPIRE", 9223372036854776),
        ("EXPIREAT", -9223372036854776),
        ("PEXPIRE", 2**63 - 1),
    ],
)
async def test_an_end_out_of_range_is_refused(client: Redis, command: str, amount: int) -> None:
    await client.set("a", "1")
    with pytest.raises(redis.exceptions.ResponseError, match=f"invalid expire time in '{command.lower()}' command"):
        await client.execute_command(command, "a", str(amount))
    assert (await client.get("a"), await client.ttl("a")) == (b"1", -1)


async def test_an_end_long_ago_ends_the_key(client: Redis) -> None:
    await client.mset({"a": "1", "b": "2"})
    assert await client.expire("a", -9223372036854775) is True
    assert await client.pexpire("b", -(2**63)) is True
    assert await client.mget("a", "b") == [None, None]


async def test_what_has_expired_is_never_seen(client: Redis) -> None:
    await client.set("gone", "1", px=30)
    await client.set("there", "1")
    await asyncio.sleep(0.05)
    assert await client.get("gone") is None
    assert await client.exists("gone") == 0
    assert await client.keys("*") == [b"there"]
    assert [key async for key in client.scan_iter()] == [b"there"]
    assert await client.execute_command("SLATE.RANGE", "", "") == [[b"there", b"1"]]
    assert await client.incr("gone") == 1
    assert await client.ttl("gone") == -1


async def test_going_through_keys(client: Redis) -> None:
    names = [b"key:%03d" % number for number in range(250)]
    await client.mset(dict.fromkeys(names, "v"))
    await client.set("other", "v")
    assert sorted([key async for key in client.scan_iter(count=7)]) == [*names, b"other"]
    assert [key async for key in client.scan_iter(match="key:*", count=100)] == names
    assert [key async for key in client.scan_iter(match="key:1[0-4]?")] == names[100:150]
    assert [key async for key in client.scan_iter(_type="list")] == []
    assert await client.keys("key:00?") == names[:10]
    cursor, _ = await client.execute_command("SCAN", "0", "COUNT", "200")
    assert await client.execute_command("SCAN", cursor, "MATCH", "a*") == (0, []), "the cursor is behind the pattern"
    with pytest.raises(redis.exceptions.ResponseError, match="invalid cursor"):
        await client.scan(cursor=123456)
    with pytest.raises(redis.exceptions.ResponseError, match="syntax error"):
        await client.execute_command("SCAN", "0", "COUNT", "0")


async def test_about_how_many_keys(server: Server, client: Redis) -> None:
    assert await client.dbsize() == 0
    await client.mset({f"key:{number}": "v" * 50 for number in range(300)})
    assert await client.dbsize() == 300
    await server.db.flush_with_options(FlushOptions(flush_type=FlushType.MEM_TABLE))
    await client.mset({f"more:{number}": "v" * 50 for number in range(20)})
    assert await client.dbsize() == 320


async def test_ranges(client: Redis) -> None:
    for name in "abcde":
        await client.set(name, name.upper())

    async def keys(*args: object) -> list[bytes]:
        return [key for key, _ in await client.execute_command("SLATE.RANGE", *args)]

    assert await keys("", "") == [b"a", b"b", b"c", b"d", b"e"]
    assert await keys("b", "d") == [b"b", b"c"]
    assert await keys("b", "", "LIMIT", 2) == [b"b", b"c"]
    assert await keys("", "d", "REV") == [b"c", b"b", b"a"]
    assert await keys("", "", "REV", "LIMIT", 1) == [b"e"]
    assert await keys("d", "b") == []
    assert await keys("", "", "LIMIT", 0) == []


async def test_the_connection(client: Redis) -> None:
    assert await client.ping() is True
    assert await client.echo("hi") == b"hi"
    assert await client.client_setname("me") is True
    assert await client.client_getname() in (b"me", "me")
    listed = await client.client_list()
    assert [each["name"] for each in listed] == ["me"]
    assert await client.execute_command("SELECT", 0) in (b"OK", True)
    with pytest.raises(redis.exceptions.ResponseError, match="DB index is out of range"):
        await client.execute_command("SELECT", 1)
    info = await client.info()
    assert info["role"] == "master"
    assert info["loading"] == 0
    assert (await client.config_get("max*"))["maxclients"] == "10000"
    assert await client.command_count() > 50
    seconds, micros = await client.time()
    assert seconds > 1_700_000_000
    assert 0 <= micros < 1_000_000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["NONSENSE", "a", "b"], r"unknown command 'NONSENSE', with args beginning with: 'a' 'b' "),
        (["GET"], "wrong number of arguments for 'get' command"),
        (["GET", "a", "b"], "wrong number of arguments for 'get' command"),
        (["MSET", "a"], "wrong number of arguments for 'mset' command"),
        (["CLIENT", "NONSENSE"], "unknown subcommand 'NONSENSE'. Try CLIENT HELP."),
        (["EXEC"], "EXEC without MULTI"),
        (["DISCARD"], "DISCARD without MULTI"),
        (["CONFIG", "SET", "a", "b"], "CONFIG SET is not supported"),
        (["SET", "", "1"], "key"),
        (["HELLO", "4"], "unsupported protocol version"),
    ],
)
async def test_mistakes(client: Redis, words: list[str], message: str) -> None:
    with pytest.raises(redis.exceptions.ResponseError, match=message):
        await client.execute_command(*words)
    assert await client.ping() is True, "a mistake ends nothing"


@pytest.mark.parametrize(
    ("version", "texts", "flags", "settings"),
    [(2, b"$", b"*2\r\n", b"*2\r\n"), (3, b"=", b"~2\r\n", b"%1\r\n")],
)
async def test_kinds_of_replies(server: Server, version: int, texts: bytes, flags: bytes, settings: bytes) -> None:
    """Version 3 has words for texts, sets and maps, and Redis uses them."""
    session = server.session()
    session.version = version

    async def asked(*words: bytes) -> bytes:
        return encode((await execute(session, list(words))).reply, version)

    for command in ([b"INFO", b"server"], [b"CLIENT", b"INFO"], [b"CLIENT", b"LIST"]):
        answer = await asked(*command)
        size, _, text = answer.partition(b"\r\n")
        assert size[:1] == texts
        assert len(text) == int(size[1:]) + 2
        assert text.startswith(b"txt:") is (version == 3)
    assert flags + b"+fast\r\n+readonly\r\n" in await asked(b"COMMAND", b"INFO", b"get")
    assert (await asked(b"CONFIG", b"GET", b"MAXCL*")).startswith(settings + b"$10\r\nmaxclients\r\n")
