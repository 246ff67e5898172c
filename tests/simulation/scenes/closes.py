"""Writers that close, in order, and what others find afterwards: those who make a checkpoint, and those who look for the log
in the wrong place."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from slate_engine.admin.checkpoints import create_checkpoint
from slate_engine.errors import CloseReason
from slate_engine.lsm.reader import Reader
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.store.protocol import OVERWRITE, Buffer, NotFound, Object, ObjectMeta, ObjectStore, PutMode
from tests.simulation.network import CALM, Weather
from tests.simulation.play import OPTIONS, Habits, Play, clients, drawn_options
from tests.simulation.session import JOIN, PATH, WATCHING, files_of, newest_manifest, read_all
from tests.simulation.world import Process, World


class Veil:
    """The store of a log in which some files are not: one was lost, or all are in another store."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.hidden: frozenset[str] | None = frozenset()
        """The files that are missing; None if all are."""

    @property
    def url(self) -> str:
        return self._store.url

    def _hides(self, key: str) -> bool:
        return self.hidden is None or key in self.hidden

    def _check(self, key: str) -> None:
        if self._hides(key):
            raise NotFound(f"{key} is not there")

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self._check(key)
        return await self._store.get(key, if_none_match=if_none_match)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        self._check(key)
        return await self._store.get_ranges(key, ranges)

    async def head(self, key: str) -> ObjectMeta:
        self._check(key)
        return await self._store.head(key)

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        raise AssertionError(f"{key} is written to a log of which some is missing")

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        async for page in self._store.list(prefix, start_after=start_after):
            yield [meta for meta in page if not self._hides(meta.key)]

    async def copy(self, source: str, destination: str) -> None:
        raise AssertionError(f"{source} is copied from a log of which some is missing")

    put_stream = copy

    async def delete(self, keys: Iterable[str]) -> None:
        raise AssertionError(f"{keys} are deleted in a log of which some is missing")

    async def close(self) -> None:
        """The store behind it belongs to the process."""


async def closes(world: World) -> Play:
    """Writers close with a flush, or without. Each time somebody makes a checkpoint from outside, which holds all that was
    acknowledged; and somebody reads without a part of the log, and is told so, or misses nothing."""
    play, chance = Play(world), world.chance
    options = replace(
        drawn_options(chance), wal_enabled=chance.random() < 0.8, max_parallel_writes=chance.choice([1, 1, 3])
    )
    blind = Blind(play)
    for _ in range(chance.randint(2, 4)):
        process = world.process(weather=chance.choice([CALM, Weather.drawn(chance)]))
        if chance.random() < 0.3:
            process.doom(1, 60)
        await play.in_process(process, _reign(play, process, options))
        session = play.sessions[-1] if play.sessions else None
        error = None if session is None or session.process is not process else session.writer.error
        if not process.crashed and error is not None and error.reason is CloseReason.CLEAN:
            await _check_checkpoint(play)
            await blind.look()
        process.crash()
        await world.arrivals()
    await blind.close()
    return await play.finish(options)


async def _reign(play: Play, process: Process, options: WriterOptions) -> None:
    chance = process.runtime.random
    session = await play.open(process, options)
    await clients(session, 2, chance.randint(1, 4), Habits(pace=chance.choice([0.01, 0.3]), flushes=0.1))
    await session.close(flush=chance.random() < 0.4)


async def _check_checkpoint(play: Play) -> None:
    keeper, must_have = play.world.process(), play.ledger.acknowledged

    async def keep() -> None:
        files = files_of(keeper)
        kept = await create_checkpoint(files)
        play.ledger.saw("the checkpoint", await read_all(await files.checkpoint(kept.id)), must_have)

    await keeper.run(keep())


class Blind:
    """Readers, and a writer, that do not find all files of the log."""

    def __init__(self, play: Play) -> None:
        self._play = play
        self._process = play.world.process("blind")
        self._veil = Veil(self._process.store)
        self._files = DatabaseFiles(self._process.store, PATH, self._process.runtime, JOIN, wal_store=self._veil)
        self._reader: Reader | None = None

    async def look(self) -> None:
        needed = newest_manifest(self._play.world).needed_wal_ids
        chance = self._play.chance
        if needed and chance.random() < 0.5:
            self._veil.hidden = frozenset([self._files.paths.wal(chance.choice(needed))])
        else:
            self._veil.hidden = None
        await self._process.run(self._read())
        if needed:
            await self._process.run(self._write())
        self._veil.hidden = frozenset()
        await self._process.run(self._follow())

    async def _read(self) -> None:
        with suppress(WalTruncated):
            must_have = self._play.ledger.acknowledged
            self._play.ledger.saw("the blind", await read_all(await self._files.latest()), must_have)
        with suppress(WalTruncated):
            await self._follow()
            return
        if self._reader is not None:
            with suppress(WalTruncated):
                self._reader.snapshot()
                raise AssertionError("the reader shows an old state, although it cannot follow the log")

    async def _follow(self) -> None:
        must_have = self._play.ledger.acknowledged
        if self._reader is None:
            self._reader = await Reader.latest(self._files, WATCHING)
        else:
            await self._reader.refresh()
        self._play.ledger.saw("the blind reader", await read_all(self._reader.snapshot()), must_have)

    async def _write(self) -> None:
        """The writer refuses to open, and fences no other writer."""
        epoch = newest_manifest(self._play.world).writer_epoch
        with suppress(WalTruncated):
            await Writer.open(self._files, OPTIONS)
            raise AssertionError("a writer opens the database without its log")
        assert newest_manifest(self._play.world).writer_epoch == epoch, "a writer that cannot open it fences others"

    async def close(self) -> None:
        if self._reader is not None:
            await self._process.run(self._reader.close())
