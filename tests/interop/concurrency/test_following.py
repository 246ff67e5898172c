"""Readers of one engine follow the live writer of the other."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from slate_engine.lsm.reader import Reader, ReaderOptions
from tests.interop.concurrency.book import Book
from tests.interop.concurrency.engines import (
    ORIGINAL,
    OURS,
    files,
    original_reader,
    read,
    rows_of,
    rows_of_original,
)
from tests.interop.concurrency.worker import Worker

LOOKS = 25


async def test_we_read_anew_what_the_original_writes(tmp_path: Path) -> None:
    """Whoever looks after an acknowledgement sees what was acknowledged."""
    book = Book()
    worker = Worker(ORIGINAL, tmp_path, "original", 11, book)
    try:
        await worker.writes(5)
        for _ in range(LOOKS // 2):
            worker.listen()
            must_have = set(book.acknowledged)
            book.check("a look", await read(OURS, tmp_path), must_have)
            await asyncio.sleep(0.01)
    finally:
        worker.kill()


@pytest.mark.parametrize("managed", [False, True])
async def test_our_reader_follows_the_original(managed: bool, tmp_path: Path) -> None:
    book = Book()
    worker = Worker(ORIGINAL, tmp_path, "original", 12, book)
    try:
        await worker.writes(5)
        options = ReaderOptions(poll_interval=1.0, checkpoint_lifetime=60.0)
        reader = await (Reader.managed if managed else Reader.latest)(files(tmp_path), options)
        for _ in range(LOOKS):
            worker.listen()
            must_have = set(book.acknowledged)
            await reader.refresh()
            book.check("the reader", await rows_of(reader.snapshot()), must_have)
            await asyncio.sleep(0.01)
        await reader.close()
    finally:
        worker.kill()


@pytest.mark.parametrize("mode", ["follow", "managed"])
async def test_the_reader_of_the_original_follows_us(mode: str, tmp_path: Path) -> None:
    """It looks when it wants to; what it sees is a state that was, and it catches up."""
    book = Book()
    worker = Worker(OURS, tmp_path, "ours", 13, book)
    modes: dict[str, Any] = {"follow": u.ReaderMode.FOLLOW_LATEST(), "managed": u.ReaderMode.MANAGED_CHECKPOINT()}
    try:
        await worker.writes(5)
        async with original_reader(tmp_path, modes[mode]) as reader:
            for _ in range(LOOKS):
                book.check("its reader", await rows_of_original(reader), ())
                await asyncio.sleep(0.02)
            worker.listen()
            wanted = set(book.acknowledged)
            for _ in range(6000):
                if book.check("its reader", await rows_of_original(reader), ()) >= wanted:
                    break
                await asyncio.sleep(0.02)
            else:
                pytest.fail("the reader of the original does not catch up with our writer")
    finally:
        worker.kill()
