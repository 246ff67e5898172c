"""What a command that goes through the keys takes of the server's memory and time."""

from __future__ import annotations

import asyncio

import pytest

from slate_engine.api import iterator
from slate_engine.api.records import KeyValue
from slate_engine.format.columns import Rows
from slate_engine.server.resp.replies import CommandError
from tests.server.resp.conftest import Server, serve


@pytest.mark.parametrize("command", [["SCAN", "0", "COUNT", "1"], ["SLATE.RANGE", "", "", "LIMIT", "1"]])
async def test_only_what_is_looked_at_is_fetched(
    server: Server, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    for number in range(80):
        await server.db.put(b"%02d" % number, bytes([number]) * (256 << 10))
    made, original = 0, iterator.key_values

    def counted(rows: Rows) -> list[KeyValue]:
        nonlocal made
        made += rows.nbytes
        return original(rows)

    monkeypatch.setattr(iterator, "key_values", counted)
    assert isinstance(await server.at_once(command), list)
    assert made < 4 << 20, "rows with their values pile up that nobody asked for"


async def test_the_parts_of_a_scan_are_put_together(server: Server) -> None:
    names = [b"%04d" % number for number in range(1200)]
    for name in names:
        await server.db.put(name, name * 500)
    assert await server.at_once(["KEYS", "*"]) == names
    assert await server.at_once(["SLATE.RANGE", "", "", "REV", "LIMIT", "1200"]) == [
        [name, name * 500] for name in reversed(names)
    ]


@pytest.mark.parametrize("command", [["KEYS", "*b*"], ["SCAN", "0", "COUNT", "1000", "MATCH", "*b*"]])
async def test_others_have_their_turn_between_long_keys(server: Server, command: list[str]) -> None:
    for number in range(60):
        await server.db.put(b"%02d" % number + b"a" * 40_000, b"")
    asked, turns = asyncio.ensure_future(server.at_once(command)), 0
    while not asked.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 30, "many long keys were looked at in one go"


async def test_a_server_refuses_the_cursor_of_another_server(server: Server) -> None:
    """Readers share one Service, and a client's next request may reach another of them. A cursor that means another key
    there would skip keys, and the client would not notice."""
    for number in range(100):
        await server.db.put(b"%02d" % number, b"")
    other = await serve(server.db)
    try:
        given = await server.at_once(["SCAN", "0", "COUNT", "10"])
        await other.at_once(["SCAN", "0", "COUNT", "90"])
        assert isinstance(given, list)
        assert isinstance(given[0], bytes)
        answer = await other.at_once(["SCAN", given[0].decode(), "COUNT", "100"])
        assert isinstance(answer, CommandError), f"a scan goes on at a key that it did not reach: {answer}"
        assert "invalid cursor" in str(answer)
        assert await server.at_once(["SCAN", given[0].decode(), "COUNT", "100"]) == [
            b"0",
            [b"%02d" % number for number in range(10, 100)],
        ]
    finally:
        await other.listener.close(1.0)


async def test_cursors_fit_into_the_numbers_of_every_client(server: Server) -> None:
    """JavaScript has no whole numbers beyond 2**53."""
    for number in range(50):
        await server.db.put(b"%02d" % number, b"")
    cursor, seen = b"0", set[int]()
    while cursor != b"0" or not seen:
        answer = await server.at_once(["SCAN", cursor.decode(), "COUNT", "1"])
        assert isinstance(answer, list)
        assert isinstance(answer[0], bytes)
        cursor = answer[0]
        seen.add(int(cursor))
    assert len(seen) == 50
    assert all(number < 2**53 for number in seen)
