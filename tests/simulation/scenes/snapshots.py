"""Somebody reads an old state while it is flushed and compacted under him."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.simulation.actors import Compactor
from tests.simulation.ledger import Seen
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Habits, Play, clients, drawn_options
from tests.simulation.session import Session, read_all
from tests.simulation.world import World

SLUGGISH = Weather(slow=0.5, longest=2.0, applies=lambda operation, key: operation == "put" and "/manifest/" in key)
"""A flush is in the manifest long before the writer hears of it."""


class Holder:
    """Whoever has pinned a state; it is let go when this is gone."""


async def snapshots(world: World) -> Play:
    """What was pinned is read again and again: from the snapshot itself, and at its sequence number from whatever state
    the database is in by then."""
    play, chance = Play(world), world.chance
    options = replace(drawn_options(chance), manifest_poll_interval=0.3, l0_sst_size_bytes=chance.choice([60, 200]))
    play.beside("compact", CALM, lambda process: Compactor(process).compact, 0.3, slower=1.0)
    process = world.process("writer", chance.choice([CALM, SLUGGISH, Weather.drawn(chance)]))

    async def work() -> None:
        session = await play.open(process, options)
        writing = process.start(clients(session, 3, 6, Habits(pace=0.3, flushes=0.4)))
        await asyncio.gather(*(hold(session) for _ in range(chance.randint(1, 3))))
        await writing

    await play.in_process(process, work())
    return await play.finish(options)


async def hold(session: Session, pace: float = 0.6) -> None:
    """Pin a state and read it again and again, with pauses of up to ``pace``; a few times."""
    chance = session.process.runtime.random
    for _ in range(chance.randint(1, 3)):
        await asyncio.sleep(chance.uniform(0, pace))
        holder = Holder()
        snapshot = session.writer.pin(holder)
        first = await read_all(snapshot)
        session.ledger.judge("a snapshot", first)
        for _ in range(3):
            await asyncio.sleep(chance.uniform(0, pace))
            _check_same(first, await read_all(snapshot), "the snapshot itself")
            later = session.writer.snapshot().at(snapshot.max_seq)
            _check_same(first, await read_all(later), "the present state, read at its sequence number")
        del holder, snapshot


def _check_same(first: Seen, again: Seen, what: str) -> None:
    wrong = {key for key in {*first.rows, *again.rows} if first.rows.get(key) != again.rows.get(key)}
    assert not wrong, f"{what} shows another state than was pinned: {sorted(wrong)}"
