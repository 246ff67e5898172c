"""What a command that goes through the keys takes of the server's memory and time."""

from __future__ import annotations

import asyncio

import pytest

from slate_engine.api import iterator
from slate_engine.api.records import KeyValue
from slate_engine.format.columns import Rows
from tests.server.resp.conftest import Server


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
