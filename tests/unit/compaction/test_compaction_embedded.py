"""A compactor inside a database that is being written to."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.plan import Leveled, Policy, SizeTiered
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.store.memory import MemoryStore
from tests.simulation.loop import SimulatedRuntime, simulate
from tests.unit.compaction.databases import OPTIONS, SST, open_files
from tests.unit.compaction.plain import Concat


class Held:
    """Somebody who goes on reading a snapshot."""


async def rows(snapshot: Snapshot) -> dict[bytes, bytes]:
    return {row[0]: row[1] async for part in snapshot.scan() for row in part.tuples()}


def change(runtime: SimulatedRuntime, model: dict[bytes, bytes]) -> Change:
    """A random change, made to the model as well."""
    key = b"key%02d" % runtime.random.randrange(60)
    value = b"%d," % runtime.random.randrange(1000) * 8
    match runtime.random.choice(["put", "put", "delete", "merge"]):
        case "put":
            model[key] = value
            return Change(key, value)
        case "merge":
            model[key] = model.get(key, b"") + value
            return Change(key, value, flags=8)
        case _:
            model.pop(key, None)
            return Change(key, b"", flags=1)


@pytest.mark.parametrize("policy", [SizeTiered(min_compaction_sources=3), Leveled(min_l0=2, fanout=3)])
@pytest.mark.parametrize("seed", range(3))
def test_reads_never_differ_while_it_works(policy: Policy, seed: int) -> None:
    async def scenario(runtime: SimulatedRuntime) -> None:
        store = MemoryStore(runtime)
        files = open_files(store, runtime)
        # A full L0 stops the writer, so that this ends only if compaction keeps up.
        options = WriterOptions(sst=SST, operator=Concat(), l0_max_ssts=4, manifest_poll_interval=1.0)
        writer = await Writer.open(files, options)
        compactor = EmbeddedCompactor(
            files,
            replace(OPTIONS, policy=policy),
            failed=writer.stop,
            committed=lambda found: writer.adopt(found.id, found.value),
        )
        await compactor.start()
        model: dict[bytes, bytes] = {}
        held: list[tuple[Held, Snapshot, dict[bytes, bytes]]] = []
        for turn in range(24):
            for _ in range(10):
                await writer.write([change(runtime, model)])
            if turn % 6 == 2:
                holder = Held()
                held.append((holder, writer.pin(holder), dict(model)))
            await asyncio.wait_for(writer.flush_memtable(), 120)
            compactor.poke()
            assert await rows(writer.snapshot()) == model
            await runtime.sleep(runtime.random.uniform(0, 2))
            for _, snapshot, then in held:
                assert await rows(snapshot) == then
                # Whoever holds it may as well read it from the trees of today: its versions are still there.
                assert await rows(writer.snapshot().at(snapshot.max_seq)) == then
        manifest = writer.state.manifest
        assert manifest.root.runs, "it has done something"
        await compactor.close()
        await writer.close()
        assert await rows(await open_files(store, runtime).latest()) == model
        # The next one, with nobody reading old states any more, finds the same.
        writer = await Writer.open(open_files(store, runtime), options)
        assert await rows(writer.snapshot()) == model
        await writer.close()

    simulate(scenario, f"{policy}/{seed}")
