"""One writer after another, in all kinds of weather, beside a compactor, a collector, and readers."""

from __future__ import annotations

from dataclasses import replace

from slate_engine.lsm.commit import Change
from slate_engine.lsm.writer_options import WriterOptions
from tests.simulation.actors import Collector, Compactor, Keeper
from tests.simulation.network import CALM, Weather
from tests.simulation.play import OPTIONS, Habits, Play, clients, drawn_options
from tests.simulation.session import Session
from tests.simulation.world import HASTY, PATIENT, Process, World


async def storms(world: World) -> Play:
    """Writers come and go; most crash."""
    play, chance = Play(world), world.chance
    options = drawn_options(chance)
    if chance.random() < 0.7:
        play.beside("compact", Weather.drawn(chance), lambda process: Compactor(process).compact, 2.0)
        play.beside("collect", Weather.drawn(chance), lambda process: Collector(process, 300.0).collect, 5.0)
        play.beside("keep", Weather.drawn(chance), lambda process: Keeper(process).keep, 3.0)
        play.follower("follow", Weather.drawn(chance))
        play.reader("watch", Weather.drawn(chance), managed=chance.random() < 0.5)
    for _ in range(chance.randint(2, 4)):
        process = world.process(
            weather=Weather.drawn(chance),
            skew_ms=chance.choice([0, 0, -5000, 5000]),
            patience=chance.choice([PATIENT, HASTY]),
        )
        if chance.random() < 0.7:
            process.doom(1, 60)
        if chance.random() < 0.3:
            process.jump_later(chance.uniform(0, 5), chance.choice([-30_000, 30_000, 3_600_000]))
        await play.in_process(process, reign(play, process, options))
        if chance.random() < 0.5:
            process.crash()
    return await play.finish(options)


async def reign(play: Play, process: Process, options: WriterOptions) -> None:
    """Open, let some clients write, and close."""
    chance = process.runtime.random
    session = await play.open(process, options)
    habits = Habits(pace=chance.choice([0.01, 0.3]), waits=chance.choice([0.1, 0.7]), keys=chance.choice([12, 60]))
    await clients(session, chance.randint(1, 3), chance.randint(1, 5), habits)
    if chance.random() < 0.5:
        await session.close()


async def long_logs(world: World) -> Play:
    """A long log is replayed into many small memtables, by writers that crash while they do it."""
    play, chance = Play(world), world.chance
    options = replace(OPTIONS, l0_sst_size_bytes=chance.choice([40, 150, 400]))
    first = world.process("first")

    async def fill() -> None:
        session = await play.open(first, replace(options, l0_sst_size_bytes=1 << 20))
        await clients(session, 3, 8, Habits(pace=0.05, flushes=0.0, keys=90, large=100))

    await first.run(fill())
    first.crash()
    for _ in range(chance.randint(1, 4)):
        process = world.process(weather=chance.choice([CALM, Weather.drawn(chance)]))
        process.doom(35, 80)
        await play.in_process(process, reign(play, process, options))
        process.crash()
    return await play.finish(options)


async def pressure(world: World) -> Play:
    """More is written than fits in memory, and level 0 has room for few SSTs: everybody waits, nobody for ever."""
    play, chance = Play(world), world.chance
    limit = chance.choice([1_500, 5_000])
    options = replace(
        OPTIONS,
        max_unflushed_bytes=limit,
        l0_sst_size_bytes=chance.choice([200, 1 << 20]),
        l0_max_ssts=chance.choice([2, 4]),
    )
    play.beside("compact", CALM, lambda process: Compactor(process).compact, 0.3, slower=1.0)
    process = world.process("pressed", Weather.drawn(chance))
    most = 0

    async def watched(session: Session) -> None:
        nonlocal most
        while True:
            state = session.writer.state
            most = max(most, state.active.memory_bytes + sum(each.memtable.memory_bytes for each in state.frozen))
            await process.runtime.sleep(0.1)

    async def work() -> None:
        session = await play.open(process, options)
        watch = process.start(watched(session))
        await clients(session, 6, 6, Habits(pace=0.02, waits=0.2, flushes=0.02, large=100))
        watch.cancel()

    await play.within(1800, process.run(work()), "writing more than fits")
    largest = 5 * (400 + 120)
    assert most < limit + largest, f"{most} bytes were in memory, and {limit} allowed"
    return await play.finish(OPTIONS)


async def outages(world: World) -> Play:
    """The store is gone for minutes. The writer says so, acknowledges nothing, loses nothing, and goes on afterwards."""
    play, chance = Play(world), world.chance
    options = replace(drawn_options(chance), max_unflushed_bytes=1 << 20)
    process = world.process("patient", Weather.drawn(chance))

    async def work() -> None:
        session = await play.open(process, options)
        process.link.weather = CALM
        await session.write([Change(b"before", b"1")])
        process.cut_off(300)
        attempt, commit = await session.take([Change(b"meanwhile", b"1")])
        if chance.random() < 0.5:
            session.writer.freeze()
        settled = process.start(session.settle(attempt, commit))
        await process.runtime.sleep(200)
        assert not settled.done(), "something was acknowledged while the store was gone"
        assert session.writer.trouble is not None, "the writer does not say that it is in trouble"
        assert session.writer.error is None, f"the writer gave up: {session.writer.error}"
        await process.runtime.sleep(150)
        await play.within(60, settled, "becoming durable after the outage")
        await session.flush(memtable=True)
        assert session.writer.trouble is None, "the writer is still in trouble"
        await session.write([Change(b"after", b"1")])
        await session.close()

    await process.run(work())
    return await play.finish(options)
