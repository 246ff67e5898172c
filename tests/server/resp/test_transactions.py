"""MULTI, EXEC, DISCARD and WATCH."""

from __future__ import annotations

import asyncio

import pytest
import redis.exceptions
from redis.asyncio import Redis

from slate_engine.server.keyspace import Watch
from tests.server.resp.conftest import Server


async def test_commands_are_carried_out_at_once(client: Redis) -> None:
    async with client.pipeline(transaction=True) as pipe:
        pipe.set("a", "1").incr("a").get("a").delete("a").exists("a")
        assert await pipe.execute() == [True, 2, b"2", 1, 0]


@pytest.mark.parametrize("before", [None, "old"])
async def test_what_has_ended_already_is_gone_for_all_commands(client: Redis, before: str | None) -> None:
    await client.mset({"a": "1", "z": "1"})
    if before is not None:
        await client.set("k", before)
    async with client.pipeline(transaction=True) as pipe:
        pipe.set("k", "v", pxat=1).get("k").exists("k").keys("*").scan(0)
        pipe.execute_command("SLATE.RANGE", "", "").execute_command("SLATE.RANGE", "", "", "REV", "LIMIT", "2")
        _, value, count, keys, scanned, found, last = await pipe.execute()
    assert (value, count, keys, scanned) == (None, 0, [b"a", b"z"], (0, [b"a", b"z"]))
    assert found == [[b"a", b"1"], [b"z", b"1"]]
    assert last == found[::-1]
    assert await client.keys("*") == [b"a", b"z"]


async def test_what_has_not_ended_is_there_for_all_commands(client: Redis) -> None:
    async with client.pipeline(transaction=True) as pipe:
        pipe.set("k", "v", ex=60).set("l", "v").keys("*").execute_command("SLATE.RANGE", "", "")
        assert (await pipe.execute())[2:] == [[b"k", b"l"], [[b"k", b"v"], [b"l", b"v"]]]


async def test_a_command_that_fails_leaves_the_others(client: Redis) -> None:
    await client.set("text", "abc")
    async with client.pipeline(transaction=True) as pipe:
        pipe.set("a", "1").incr("text").set("b", "2")
        done = await pipe.execute(raise_on_error=False)
    assert done[0] is True
    assert isinstance(done[1], redis.exceptions.ResponseError)
    assert done[2] is True
    assert await client.mget("a", "b", "text") == [b"1", b"2", b"abc"]


async def test_a_command_that_is_wrong_spoils_all(client: Redis) -> None:
    await client.execute_command("MULTI")
    await client.execute_command("GET", "a")
    with pytest.raises(redis.exceptions.ResponseError, match="wrong number"):
        await client.execute_command("GET")
    with pytest.raises(redis.exceptions.ExecAbortError, match="Transaction discarded"):
        await client.execute_command("EXEC")
    assert await client.get("a") is None


async def test_what_cannot_be_in_a_transaction_leaves_the_others(client: Redis) -> None:
    await client.execute_command("MULTI")
    for command in (["MULTI"], ["WATCH", "a"]):
        with pytest.raises(redis.exceptions.ResponseError):
            await client.execute_command(*command)
    await client.execute_command("SET", "a", "1")
    await client.execute_command("AUTH", "default", "any")
    assert await client.execute_command("EXEC") == [b"OK", b"OK"]


async def test_discard(client: Redis) -> None:
    await client.execute_command("MULTI")
    await client.execute_command("SET", "a", "1")
    with pytest.raises(redis.exceptions.ResponseError, match="can not be nested"):
        await client.execute_command("MULTI")
    with pytest.raises(redis.exceptions.ResponseError, match="WATCH inside MULTI"):
        await client.execute_command("WATCH", "a")
    await client.execute_command("DISCARD")
    assert await client.get("a") is None


async def test_watch(server: Server, client: Redis) -> None:
    other = server.client()
    await client.set("a", "1")
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch("a", "missing")
        assert await pipe.get("a") == b"1"
        await other.set("unrelated", "1")
        pipe.multi()
        pipe.incr("a")
        assert await pipe.execute() == [2]
    for key in ("a", "missing"):
        async with client.pipeline(transaction=True) as pipe:
            await pipe.watch("a", "missing")
            await other.set(key, "9")
            pipe.multi()
            pipe.set("a", "lost")
            with pytest.raises(redis.exceptions.WatchError):
                await pipe.execute()
    assert await client.get("a") == b"9"
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch("a")
        await other.set("a", "10")
        await pipe.unwatch()
        pipe.multi()
        pipe.get("a")
        assert await pipe.execute() == [b"10"]
    await other.aclose()


async def test_a_watched_key_that_expires_has_changed(server: Server, client: Redis) -> None:
    await client.set("short", "1", px=60)
    await client.set("long", "1", ex=60)
    await client.set("gone", "1", px=1)
    await asyncio.sleep(0.01)
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch("long", "gone", "missing")
        pipe.multi()
        pipe.set("a", "1")
        assert await pipe.execute() == [True], "what had expired before has not changed since"
    async with client.pipeline(transaction=True) as pipe:
        await pipe.watch("long")
        await pipe.watch("short")
        assert await pipe.get("short") == b"1"
        await asyncio.sleep(0.1)
        pipe.multi()
        pipe.set("a", "2")
        with pytest.raises(redis.exceptions.WatchError):
            await pipe.execute()
    assert await client.get("a") == b"1"


async def count_up(server: Server) -> tuple[int, int]:
    """Clients that add one with WATCH, each twenty times; what it comes to, and how often one lost."""
    lost = 0

    async def count() -> None:
        nonlocal lost
        mine = server.client()
        for _ in range(20):
            while True:
                async with mine.pipeline(transaction=True) as pipe:
                    try:
                        await pipe.watch("n")
                        have = int(await pipe.get("n") or 0)
                        pipe.multi()
                        pipe.set("n", have + 1)
                        await pipe.execute()
                        break
                    except redis.exceptions.WatchError:
                        lost += 1
        await mine.aclose()

    await asyncio.gather(*(count() for _ in range(4)))
    last = server.client()
    total = int(await last.get("n") or 0)
    await last.aclose()
    return total, lost


async def test_watch_keeps_every_addition(server: Server) -> None:
    total, lost = await count_up(server)
    assert total == 80
    assert lost > 0, "nobody ever lost, so this has shown nothing"


async def test_without_the_watch_additions_would_be_lost(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    async def blind(watch: Watch) -> bool:
        return True

    async def deaf(unit: object, keys: object) -> None:
        return None

    monkeypatch.setattr(Watch, "untouched", blind)
    monkeypatch.setattr("slate_engine.server.keyspace.WriteUnit.lose_to_writes_of", deaf)
    total, _ = await count_up(server)
    assert total < 80
