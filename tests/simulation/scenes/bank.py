"""Money moves between accounts by transactions, and whoever looks, wherever he looks, finds all of it."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

from slate_engine.errors import TransactionError
from slate_engine.lsm.commit import Change
from slate_engine.lsm.writer_options import WriterOptions
from tests.simulation.actors import Collector, Compactor
from tests.simulation.ledger import Seen
from tests.simulation.network import CALM, Weather
from tests.simulation.play import Play, drawn_options
from tests.simulation.scenes.gc import INPUTS_KEPT, Witness
from tests.simulation.session import Session
from tests.simulation.world import HASTY, PATIENT, Process, World

ACCOUNTS = [b"account%d" % number for number in range(5)]
EACH = 100


async def bank(world: World) -> Play:
    """Clerks transfer and auditors count: at the writer, at readers, in checkpoints, while writers crash, levels are
    compacted and what is not needed is collected."""
    play, chance = Play(world), world.chance
    play.ledger.rules.append(nothing_is_missing)
    options = replace(
        drawn_options(chance),
        manifest_poll_interval=chance.choice([0.5, 2.0]),
        l0_sst_size_bytes=chance.choice([60, 200]),
    )
    play.beside("compact", CALM, lambda process: Compactor(process, INPUTS_KEPT).compact, 0.5, 1.05)
    play.beside("collect", CALM, lambda process: Collector(process, 0.0).collect, 0.5, 1.05)
    play.follower("auditor", Weather.drawn(chance))
    play.reader("inspector", managed=True)
    witness = Witness(play)
    play.beside("witness", CALM, witness.looking, 0.7, 1.1)
    for _ in range(chance.randint(1, 3)):
        process = world.process(weather=Weather.drawn(chance), patience=chance.choice([PATIENT, HASTY]))
        if chance.random() < 0.6:
            process.doom(20, 120)
        await play.in_process(process, _day(play, process, options))
        process.crash()
    return await play.finish(options)


def nothing_is_missing(seen: Seen) -> None:
    """The rule. A state from before the bank opened has no accounts at all."""
    balances = [int(seen.rows[account][0]) for account in ACCOUNTS if account in seen.rows]
    assert not balances or sum(balances) == EACH * len(ACCOUNTS), f"of the money {sum(balances)} is left: {balances}"


async def _day(play: Play, process: Process, options: WriterOptions) -> None:
    session = await play.open(process, options)
    if await session.writer.snapshot().get(ACCOUNTS[0]) is None:
        await session.take([Change(account, b"%d" % EACH) for account in ACCOUNTS])
    chance = process.runtime.random
    await asyncio.gather(*(_clerk(session, chance) for _ in range(chance.randint(2, 3))))
    await session.read()


async def _clerk(session: Session, chance: random.Random) -> None:
    for number in range(chance.randint(2, 5)):
        await asyncio.sleep(chance.uniform(0, 0.4))
        if not session.process.world.injector.allows(f"commit {number} of {session.process.name}"):
            continue
        transaction, snapshot = session.writer.begin(), session.writer.snapshot()
        giver, taker = chance.sample(ACCOUNTS, 2)
        try:
            rows = [await snapshot.get(account) for account in (giver, taker)]
            balances = [int(row.value) for row in rows if row is not None]
            amount = chance.randint(1, 20)
            await asyncio.sleep(chance.choice([0.0, 0.05]))
            transaction.writes.update((giver, taker))
            transaction.reads.update((giver, taker))
            changes = [Change(giver, b"%d" % (balances[0] - amount)), Change(taker, b"%d" % (balances[1] + amount))]
            taken = await session.take(changes, transaction)
        except TransactionError:
            continue
        finally:
            session.writer.end(transaction)
        if chance.random() < 0.5:
            await session.settle(*taken)
        if chance.random() < 0.3:
            await session.flush(memtable=True)
