"""What a simulated run leaves behind, the original opens too: at the end of any play, and at the very point of a crash."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from tests.simulation.audit import export
from tests.simulation.ledger import Seen
from tests.simulation.network import Moment
from tests.simulation.play import Play
from tests.simulation.scenes.crashes import KINDS, busy_day, leave_a_log
from tests.simulation.scenes.repertoire import SCENES
from tests.simulation.session import JOIN, PATH
from tests.simulation.world import World, explore


class Join(u.MergeOperator):  # type: ignore[misc]
    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return JOIN.merge(key, existing_value, operand)


def store(folder: Path) -> Any:
    builder = u.ObjectStoreBuilder(u.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(folder))
    return builder.build()


async def everything(reader: Any) -> Seen:
    found = await reader.scan(u.KeyRange(start=None, start_inclusive=True, end=None, end_inclusive=True))
    rows: list[Any] = []
    while batch := await found.next_batch(1000):
        rows += batch
    return Seen.of([(row.key, row.value, row.seq) for row in rows])


async def read_by_original(folder: Path) -> Seen:
    builder = u.DbReaderBuilder(PATH, store(folder))
    builder.with_reader_mode(u.ReaderMode.FOLLOW_LATEST())
    builder.with_merge_operator(Join())
    reader = await builder.build()
    try:
        return await everything(reader)
    finally:
        await reader.shutdown()


OTHERWISE = {"deletions", "evictions", "graces", "families", "restores", "tables"}
"""Scenes that leave no database, another than the ledger tells of, or one in a bucket that the original cannot use."""


async def taken_over_by_original(folder: Path) -> Seen:
    """What its writer sees when it has opened the database, and its own row with it."""
    settings = u.Settings.default()
    settings.set("compactor_options", "null")
    settings.set("garbage_collector_options", "null")
    # Nobody compacts here, and some plays leave a level 0 at which the original would wait for that.
    settings.set("l0_max_ssts", "1000")
    settings.set("l0_max_ssts_per_key", "1000")
    builder = u.DbBuilder(PATH, store(folder))
    builder.with_settings(settings)
    builder.with_merge_operator(Join())
    db = await builder.build()
    try:
        seen = await everything(db)
        await (await db.put(b"~original", b"was here")).await_durable()
        return seen
    finally:
        await db.shutdown()


@pytest.mark.parametrize("name", [name for name in SCENES if name not in OTHERWISE])
def test_the_original_reads_what_a_play_left(name: str, tmp_path: Path) -> None:
    for seed in (0, 1):
        folder = tmp_path / str(seed)
        play = explore(SCENES[name][0], seed)
        export(play.world, folder)
        assert play.final is not None
        assert of_the_play(asyncio.run(read_by_original(folder))) == play.final.rows
        assert of_the_play(asyncio.run(taken_over_by_original(folder))) == play.final.rows
        after = of_the_play(asyncio.run(read_by_original(folder)))
        assert after.pop(b"~original")[0] == b"was here"
        assert after == play.final.rows


def of_the_play(seen: Seen) -> dict[bytes, Any]:
    """The scene of compactions writes a row after the last look, to have the database move on."""
    return {key: row for key, row in seen.rows.items() if key != b"tidy"}


@pytest.mark.parametrize("kind", ["plain", "small memtables", "no WAL"])
@pytest.mark.parametrize("moment", [Moment.BEFORE, Moment.AFTER])
def test_the_original_takes_over_where_a_writer_crashed(kind: str, moment: Moment, tmp_path: Path) -> None:
    for request in (3, 9, 14, 19, 23, 26, 29, 32):
        folder = tmp_path / str(request)
        play = explore(_left_at(kind, request, moment), 0)
        export(play.world, folder)
        seen = asyncio.run(taken_over_by_original(folder))
        commits = play.ledger.judge("the original", seen)
        assert commits >= play.ledger.acknowledged


def _left_at(kind: str, request: int, moment: Moment) -> Any:
    """A play that ends with the crash: nobody of ours has been there since."""

    async def play(world: World) -> Play:
        play = Play(world)
        await leave_a_log(play, KINDS[kind])
        process = world.process("victim")
        process.link.crash_at = request, moment

        async def work() -> None:
            await busy_day(await play.open(process, KINDS[kind]))

        await play.in_process(process, work())
        await world.arrivals()
        return play

    return play
