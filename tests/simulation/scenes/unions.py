"""A union of two parts of a database: its L0 has every SST twice, and goes through compactors that crash, stall and fight.

The original (SlateDB 0.17) gives the two views of one SST the same id, and its writer keeps a list of L0 of its own, which
it cuts where the manifest says how far L0 is compacted. Both are played here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from uuid import UUID

from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.errors import Error, Fenced
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm.commit import Change
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.state.commit import Versioned
from slate_engine.state.manifest import Manifest
from slate_engine.state.stores import ManifestStore
from slate_engine.state.tree import Tree
from slate_engine.state.views import Views
from tests.simulation.faults import Role
from tests.simulation.ledger import Seen
from tests.simulation.network import CALM, Weather
from tests.simulation.play import OPTIONS, Habits, Play, Work, clients
from tests.simulation.scenes.compactions import drawn_compactor
from tests.simulation.scenes.destroys import insist
from tests.simulation.scenes.submissions import submitting
from tests.simulation.session import JOIN, PATH, files_of, read_all
from tests.simulation.world import HASTY, PATIENT, Process, World

UNION = "union"
HALVES = {"low": KeyRange.half_open(None, b"k06"), "high": KeyRange.half_open(b"k06", None)}
REQUEST = UUID(int=1, version=4)
OWN = b"~"
"""Keys of the union's own writer begin with it; no other key does."""


def union_of(process: Process) -> DatabaseFiles:
    return DatabaseFiles(process.store, UNION, process.runtime, JOIN)


@dataclass
class Wanted:
    """What the union must show: ``first`` as long as it lives, and what its writer has stored."""

    first: Seen
    asked: set[bytes] = field(default_factory=set)
    stored: set[bytes] = field(default_factory=set)

    def check(self, seen: Seen, stored: frozenset[bytes]) -> None:
        own = {key for key in seen.rows if key.startswith(OWN)}
        assert stored <= own <= self.asked, f"of what its writer stored the union lacks {sorted(stored - own)}"
        rows = {key: row for key, row in seen.rows.items() if key not in own}
        wrong = sorted(key for key in {*rows, *self.first.rows} if rows.get(key) != self.first.rows.get(key))
        assert not wrong, f"the union has lost or changed rows, of {wrong}"


async def unions(world: World) -> Play:
    """Whatever is compacted of it by whom, the union shows the rows of its parent as they were, and those of its writer."""
    play, chance = Play(world), world.chance
    first = await _parent(play)
    await insist(world, _make)
    await insist(world, _check_ids)
    if chance.random() < 0.6:
        await insist(world, _name_as_the_original_does)
    wanted = Wanted(await _shown(world))
    assert wanted.first == first, "the union shows other rows than the database that it was made of"
    play.beside("submit", CALM, lambda process: submitting(process, union_of(process)), 2.0, slower=1.0)
    play.beside("read", Weather(slow=0.1, longest=3.0), lambda process: _reading(process, wanted), 1.0, slower=1.0)
    writing = asyncio.ensure_future(_write(world, wanted))
    shifts = [asyncio.ensure_future(_shifts(play, number, lambda: not writing.done())) for number in range(2)]
    for task in (writing, *shifts):
        await task
    for process in play.others:
        process.crash()
    world.clear_up()
    await world.arrivals()
    await play.within(600, _settle(world, wanted), "compacting the union")
    return await play.finish()


async def _parent(play: Play) -> Seen:
    """A database with some SSTs in L0 that have the same keys, and an empty log."""
    chance = play.chance
    process = play.world.process("parent")

    async def write() -> Seen:
        session = await play.open(process, OPTIONS)
        for _ in range(chance.randint(3, 8)):
            await clients(session, 2, 2, Habits(pace=0.1, waits=0.2, flushes=0.0, reads=0.0))
            await session.flush(memtable=True)
        await session.close()
        return await read_all(await files_of(process).latest())

    return await process.run(write())


async def _make(files: DatabaseFiles) -> None:
    """With an id, so that it can be done again after a crash."""
    for path, keys in HALVES.items():
        await create_clone(_beside(files, path), [CloneSource(PATH, keys=keys)], id=REQUEST)
    await create_clone(_beside(files, UNION), [CloneSource(path) for path in HALVES], id=REQUEST)


async def _check_ids(files: DatabaseFiles) -> None:
    ids = list((await _beside(files, UNION).manifest()).root.l0.ids)
    assert len({*ids}) == len(ids), "two L0 views of the union have one id"


async def _name_as_the_original_does(files: DatabaseFiles) -> None:
    """SlateDB 0.17 keeps the ids of views that it cuts down: both views of an SST have the SST's own id."""

    def change(old: Manifest) -> Manifest:
        views = Views.of(replace(view, id=view.sst.id) for view in old.root.l0)
        return old if views == old.root.l0 else old.with_root(replace(old.root, l0=views))

    await _beside(files, UNION).manifests.update(change)


def _beside(files: DatabaseFiles, path: str) -> DatabaseFiles:
    return DatabaseFiles(files.store, path, files.runtime, files.operator)


async def _shown(world: World) -> Seen:
    process = world.process("first")
    return await process.run(_read(process))


async def _read(process: Process) -> Seen:
    return await read_all(await union_of(process).latest())


def _reading(process: Process, wanted: Wanted) -> Work:
    async def read() -> None:
        stored = frozenset(wanted.stored)
        wanted.check(await _read(process), stored)

    return read


# --- its writers -----------------------------------------------------------------------------------------------------


class OwnList(ManifestStore):
    """The manifests as a writer of the original commits them: L0 is its own list, without what is compacted by now."""

    _l0: Views | None = None

    async def update(self, transition: Callable[[Manifest], Manifest]) -> Versioned[Manifest]:
        def change(old: Manifest) -> Manifest:
            wanted = transition(old)
            if wanted is old or self._l0 is None:
                return wanted
            added = wanted.root.l0[: len(wanted.root.l0) - len(old.root.l0)]
            l0 = Views.concat([added, _cut(self._l0, old.root)])
            return wanted.with_root(replace(wanted.root, l0=l0))

        committed = await super().update(change)
        self._l0 = committed.value.root.l0
        return committed


def _cut(l0: Views, tree: Tree) -> Views:
    """The views before the first one that has the id of the newest one that is compacted."""
    ids = list(l0.ids)
    return l0[: ids.index(tree.last_compacted_l0_view)] if tree.last_compacted_l0_view in ids else l0


async def _write(world: World, wanted: Wanted) -> None:
    """Ours, or one that has a list of L0 of its own."""
    chance, process = world.chance, world.process("writer")
    files = union_of(process)
    if chance.random() < 0.6:
        files.manifests = OwnList(files.manifests.objects, files.runtime)
    pauses = [chance.uniform(0, 4) for _ in range(chance.randint(4, 10))]

    async def write() -> None:
        process.acts_as(Role.WRITER)
        writer = await Writer.open(files, replace(OPTIONS, manifest_poll_interval=1.0))
        for number, pause in enumerate(pauses):
            await asyncio.sleep(pause)
            key = OWN + b"%02d" % number
            wanted.asked.add(key)
            await (await writer.write([Change(key, b"1")])).durable()
            wanted.stored.add(key)
            await writer.flush_memtable()
        await writer.close()

    await process.run(write())


# --- its compactors --------------------------------------------------------------------------------------------------


async def _shifts(play: Play, number: int, goes_on: Callable[[], bool]) -> None:
    """One compactor after another; the second line of them begins later, and fences the first."""
    world, chance = play.world, play.chance
    await asyncio.sleep(chance.uniform(0, 3) + 5 * number)
    while goes_on():
        process = world.process(weather=Weather.drawn(chance), patience=chance.choice([PATIENT, HASTY]))
        if chance.random() < 0.4:
            process.doom(1, 150)
        await play.in_process(process, _shift(process, chance.uniform(2, 12)))
        process.crash()


async def _shift(process: Process, seconds: float) -> None:
    errors: list[Error] = []
    options = drawn_compactor(process.world.chance)
    compactor = EmbeddedCompactor(union_of(process), options, failed=errors.append)
    process.acts_as(Role.COMPACTOR)
    await compactor.start()
    await process.runtime.sleep(seconds)
    await compactor.close()
    for error in errors:
        assert isinstance(error, Fenced), f"a compactor of the union stopped: {error.message}"


async def _settle(world: World, wanted: Wanted) -> None:
    """The compactor can compact L0, even if ids repeat in it, so L0 does not grow without end."""
    process = world.process("settle")

    def compacting() -> Awaitable[None]:
        return _shift(process, 30.0)

    await process.run(_until_small(process, compacting))
    wanted.check(await process.run(_read(process)), frozenset(wanted.stored))


async def _until_small(process: Process, compacting: Callable[[], Awaitable[None]]) -> None:
    for _ in range(4):
        if len((await union_of(process).manifest()).root.l0) < 2:
            return
        await compacting()
    raise AssertionError("L0 of the union is never compacted")
