"""A writer in a process of its own, which reports over a pipe what was acknowledged until it is told to stop, is fenced,
or is killed."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import random
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import slatedb.uniffi as u

from slate_engine.errors import Error
from tests.interop.concurrency.book import Book, changes_of, name_of
from tests.interop.concurrency.engines import Ending, LiveWriter

PRELOADED = ["tests.interop.concurrency.warm", "tests.interop.concurrency.worker"]
PATIENCE = 60.0


@dataclass(frozen=True)
class Opened:
    """The writer has taken the database over."""


@dataclass(frozen=True)
class Acknowledged:
    number: int


def main(engine: str, folder: Path, tag: str, seed: int, pipe: Connection) -> None:
    """What the process does."""
    asyncio.run(_work(engine, folder, tag, random.Random(seed), pipe))


async def _work(engine: str, folder: Path, tag: str, chance: random.Random, pipe: Connection) -> None:
    try:
        writer = await LiveWriter.open(
            engine, folder, chance.choice([500, 5_000, 1 << 20]), compactor=chance.random() < 0.5
        )
        pipe.send(Opened())
        await _write(writer, tag, chance, pipe)
        await writer.close()
        pipe.send(None)
    except* (Error, u.Error) as errors:
        # Everybody who waits is told the same.
        pipe.send(Ending.of(errors.exceptions[0]))


async def _write(writer: LiveWriter, tag: str, chance: random.Random, pipe: Connection) -> None:
    async def acknowledge(number: int, handle: Any) -> None:
        await handle.await_durable()
        pipe.send(Acknowledged(number))

    async with asyncio.TaskGroup() as waiting:
        for number in itertools.count():
            if pipe.poll():
                return
            handle = await writer.write(changes_of(tag, number))
            waiting.create_task(acknowledge(number, handle))
            if chance.random() < 0.02:
                await writer.flush()
            await asyncio.sleep(chance.choice([0, 0, 0, 0.001, 0.01]))


class Worker:
    """The process, seen from outside."""

    _context = multiprocessing.get_context("forkserver")

    def __init__(self, engine: str, folder: Path, tag: str, seed: int, book: Book) -> None:
        # The interpreter and both engines are loaded once; a worker is there in no time.
        self._context.set_forkserver_preload(PRELOADED)
        self.engine = engine
        self.tag = tag
        self._book = book
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=main, args=(engine, folder, tag, seed, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.acknowledged = 0
        self.opened = False
        self.ending: Ending | None = None
        self.ended = False

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that it reports."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not condition():
            self.listen()
            if condition():
                return
            assert not self.ended, f"{self.tag} ended before {what}: {self.ending}"
            assert asyncio.get_running_loop().time() < deadline, f"{self.tag}: waited too long for {what}"
            await asyncio.sleep(0.005)

    async def writes(self, count: int = 1) -> None:
        """Wait until it has opened the database and so many more commits are acknowledged."""
        before = self.acknowledged
        await self.until(lambda: self.acknowledged >= before + count, f"{count} acknowledgements")

    async def ends(self) -> Ending | None:
        """Wait until it has ended by itself; the error that it ended with."""
        await self.until(lambda: self.ended, "its end")
        self._process.join(PATIENCE)
        return self.ending

    async def stop(self) -> Ending | None:
        """Let it close its writer and end."""
        self._pipe.send("stop")
        return await self.ends()

    def kill(self) -> None:
        """``kill -9``. What it had said by then is heard."""
        self._process.kill()
        self._process.join(PATIENCE)
        self.listen()
        self._pipe.close()

    def listen(self) -> None:
        """Take note of what it has said."""
        try:
            while not self.ended and self._pipe.poll():
                match self._pipe.recv():
                    case Opened():
                        self.opened = True
                    case Acknowledged(number):
                        self.acknowledged += 1
                        self._book.acknowledged.add(name_of(self.tag, number))
                    case ending:
                        self.ending, self.ended = ending, True
        except (EOFError, ConnectionResetError):
            self.ended = True
