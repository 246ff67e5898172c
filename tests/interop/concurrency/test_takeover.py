"""Two engines, one database: whoever comes takes over, whoever is killed loses nothing that it had acknowledged."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.interop.concurrency.book import Book
from tests.interop.concurrency.engines import ORIGINAL, OURS, read
from tests.interop.concurrency.worker import Worker
from tests.share import share_of

BOTH = [(OURS, ORIGINAL), (ORIGINAL, OURS)]


async def check(book: Book, folder: Path) -> None:
    """Both engines read the same, and it is what was promised."""
    ours, original = await read(OURS, folder), await read(ORIGINAL, folder)
    assert ours == original
    book.check("a reader", ours)


@pytest.mark.parametrize(("first", "second"), BOTH)
async def test_each_fences_the_other(first: str, second: str, tmp_path: Path) -> None:
    book = Book()
    old = Worker(first, tmp_path, "old", 1, book)
    await old.writes(20)
    new = Worker(second, tmp_path, "new", 2, book)
    await new.writes(20)
    ending = await old.ends()
    assert ending is not None
    assert ending.reason == "FENCED", ending
    assert ending.error == ("Fenced" if first == OURS else "Closed"), ending
    assert "detected newer DB client" in ending.message
    if first == OURS:
        assert "epoch 2" in ending.message, "the error does not say by whom"
    back = Worker(first, tmp_path, "back", 3, book)
    await back.writes(20)
    ending = await new.ends()
    assert ending is not None
    assert (ending.reason, ending.error) == ("FENCED", "Fenced" if second == OURS else "Closed")
    assert await back.stop() is None
    await check(book, tmp_path)


@pytest.mark.parametrize(("first", "second"), BOTH)
async def test_killed_at_any_time(first: str, second: str, tmp_path: Path) -> None:
    """They take turns, and each is killed while it writes."""
    await play(tmp_path, 7, [first, second, first, second, first, second])


@pytest.mark.parametrize("seed", range(3))
async def test_fenced_and_killed_in_any_order(seed: int, tmp_path: Path) -> None:
    await melee(tmp_path, seed, 6)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 100 + share_of(6)))
async def test_killed_at_any_time_for_long(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    await play(tmp_path, seed, [chance.choice([OURS, ORIGINAL]) for _ in range(20)])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(100, 100 + share_of(6)))
async def test_fenced_and_killed_in_any_order_for_long(seed: int, tmp_path: Path) -> None:
    await melee(tmp_path, seed, 30)


async def play(folder: Path, seed: int, engines: list[str]) -> None:
    chance, book = random.Random(seed), Book()
    for turn, engine in enumerate(engines):
        worker = Worker(engine, folder, f"{engine}{turn}", chance.getrandbits(32), book)
        try:
            await worker.until(lambda worker=worker: worker.opened, "its opening")  # type: ignore[misc]
            await asyncio.sleep(chance.uniform(0, 0.5))
        finally:
            worker.kill()
        await check(book, folder)
    assert len(book.acknowledged) > 5 * len(engines)


def _was_beaten(worker: Worker) -> bool:
    """One of the original that is overtaken while it opens the database may say only that its manifest's number is taken."""
    ending = worker.ending
    overtaken = worker.engine == ORIGINAL and ending is not None and "version already exists" in ending.message
    return overtaken or (ending is not None and ending.reason == "FENCED")


async def melee(folder: Path, seed: int, turns: int) -> None:
    """Writers of both engines come while others are still there. Some are killed; of the others all but one find out that
    they are fenced, and that one goes on."""
    chance, book = random.Random(seed), Book()
    alive: list[Worker] = []
    try:
        for turn in range(turns):
            alive.append(Worker(chance.choice([OURS, ORIGINAL]), folder, f"w{turn}", chance.getrandbits(32), book))
            if turn == 0:
                # Two processes of the original that create a database at the same moment do not agree on who does.
                await alive[0].writes()
            await asyncio.sleep(chance.choice([0.0, 0.1, 0.4]))
            if turn + 1 < turns and chance.random() < 0.5:
                alive.pop(chance.randrange(len(alive))).kill()
        survivor = await the_last_one(alive)
        await survivor.writes(10)
        for worker in alive:
            assert worker is survivor or _was_beaten(worker), worker.ending
        assert await survivor.stop() is None
        await check(book, folder)
    finally:
        for worker in alive:
            worker.kill()


async def the_last_one(workers: list[Worker]) -> Worker:
    """Whoever came last to the manifest, which need not be the one that was started last."""
    for _ in range(6000):
        for worker in workers:
            worker.listen()
        left = [worker for worker in workers if not worker.ended]
        if len(left) == 1:
            return left[0]
        await asyncio.sleep(0.01)
    raise AssertionError(f"still alive: {[(worker.engine, worker.tag, worker.acknowledged) for worker in left]}")
