"""A database of the original's whose WAL is in a store of its own, opened by us without that store. The manifest does not
name it, so a reader finds no WAL at all, and must not take that for the end of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import slatedb.uniffi as u

from slate_engine.admin.checkpoints import CheckpointOptions, create_checkpoint
from slate_engine.admin.cloning import CloneSource, create_clone
from slate_engine.admin.copying import copy_database
from slate_engine.admin.ownership import Owner, claim
from slate_engine.admin.restoring import restore
from slate_engine.api.choices import ReaderMode
from slate_engine.api.object_store import ObjectStore
from slate_engine.api.reader_builder import DbReaderBuilder
from slate_engine.api.wal_reader import SlateDbWalReader
from slate_engine.errors import DataError
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.replay import WalTruncated
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.server.admin.documents import status_document
from tests.interop import ours
from tests.interop.original import Original
from tests.interop.style import Style

KEYS = [b"k%d" % number for number in range(10)]
ELSEWHERE = "probably in another store"
OURSELVES = Owner("11111111-1111-1111-1111-111111111111", "shop", "orders")


@asynccontextmanager
async def their_writer(folder: Path) -> AsyncIterator[Any]:
    """It has five rows in level 0, and five in its WAL, a file for each."""
    for name in ("main", "log"):
        (folder / name).mkdir(exist_ok=True)
    settings = u.Settings.default()
    for name in ("compactor_options", "garbage_collector_options"):
        settings.set(name, "null")
    builder = u.DbBuilder("db", Original(folder / "main", Style()).store)
    builder.with_wal_object_store(Original(folder / "log", Style()).store)
    builder.with_settings(settings)
    db = await builder.build()
    for key in KEYS:
        await db.put(key, b"v")
        kind = u.FlushType.MEM_TABLE if key == KEYS[4] else u.FlushType.WAL
        await db.flush_with_options(u.FlushOptions(flush_type=kind))
    try:
        yield db
    finally:
        await db.shutdown_with_options(u.CloseOptions(flush_type=None))


def files(folder: Path, path: str = "db", *, log: bool = False) -> DatabaseFiles:
    store = ours.folder_store(folder / "main")
    return DatabaseFiles(store, path, ours.RUNTIME, wal_store=ours.folder_store(folder / "log") if log else None)


@pytest.fixture
async def closed(tmp_path: Path) -> Path:
    async with their_writer(tmp_path):
        pass
    return tmp_path


async def test_with_the_store_of_its_log_everything_is_there(closed: Path) -> None:
    whole = files(closed, log=True)
    assert [row.key for row in await ours.scan(await whole.latest())] == KEYS
    assert (await status_document(whole))["log_trouble"] is None
    writer = await Writer.open(whole, WriterOptions())
    await writer.close()


async def latest(found: DatabaseFiles) -> None:
    await found.latest()


async def follow(found: DatabaseFiles) -> None:
    await Reader.latest(found, ReaderOptions())


async def manage(found: DatabaseFiles) -> None:
    await Reader.managed(found, ReaderOptions())


async def write(found: DatabaseFiles) -> None:
    await Writer.open(found, WriterOptions())


async def keep(found: DatabaseFiles) -> None:
    await create_checkpoint(found, CheckpointOptions(whole_log=True))


async def clone(found: DatabaseFiles) -> None:
    await create_clone(files(Path(found.store.url.removeprefix("file://")).parent, "clone"), [CloneSource("db")])


async def copy(found: DatabaseFiles) -> None:
    await copy_database(found, files(Path(found.store.url.removeprefix("file://")).parent, "copy"))


async def adopt(found: DatabaseFiles) -> None:
    await claim(found, OURSELVES, "database")


async def stream(found: DatabaseFiles) -> None:
    reader = SlateDbWalReader("db", ObjectStore.of(found.store, ours.RUNTIME))
    after = (await found.manifest()).replay_after_wal_id
    await asyncio.wait_for((await reader.iterator(after + 1)).next(), 60)


async def open_reader(found: DatabaseFiles) -> None:
    await DbReaderBuilder("db", ObjectStore.of(found.store, ours.RUNTIME)).build()


@pytest.mark.parametrize(
    "use", [latest, follow, manage, write, keep, clone, copy, adopt, stream, open_reader], ids=lambda use: use.__name__
)
async def test_without_it_nothing_is_read_and_nothing_is_changed(
    closed: Path, use: Callable[[DatabaseFiles], Awaitable[None]]
) -> None:
    before = sorted(path for path in (closed / "main").rglob("*") if path.is_file())
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await use(files(closed))
    assert sorted(path for path in (closed / "main").rglob("*") if path.is_file()) == before


async def test_the_admin_api_says_so(closed: Path) -> None:
    told = (await status_document(files(closed)))["log_trouble"]
    assert ELSEWHERE in told
    assert "SLATE_STORE__WAL_URL" in told


async def test_a_checkpoint_that_cannot_be_read(closed: Path) -> None:
    """One that was made with the store of the log, read without it. SlateDB makes one without it, too; we refuse."""
    kept = await create_checkpoint(files(closed, log=True))
    found = files(closed)
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await create_checkpoint(found)
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await found.checkpoint(kept.id)
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await Reader.at_checkpoint(found, kept.id, ReaderOptions())
    builder = DbReaderBuilder("db", ObjectStore.of(found.store, ours.RUNTIME))
    builder.with_reader_mode(ReaderMode.CHECKPOINT(str(kept.id)))
    with pytest.raises(DataError, match=ELSEWHERE):
        await builder.build()
    epoch = (await found.manifest()).writer_epoch
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await restore(found, kept.id)
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await create_clone(files(closed, "clone"), [CloneSource("db", kept.id)])
    with pytest.raises(WalTruncated, match=ELSEWHERE):
        await copy_database(found, files(closed, "copy"), kept.id)
    assert (await found.manifest()).writer_epoch == epoch
    assert not (closed / "main" / "clone").exists()
    assert not (closed / "main" / "copy").exists()
    assert [row.key for row in await ours.scan(await files(closed, log=True).checkpoint(kept.id))] == KEYS


async def test_a_live_writer_is_not_fenced_by_one_that_cannot_replay_its_log(tmp_path: Path) -> None:
    async with their_writer(tmp_path) as db:
        with pytest.raises(WalTruncated, match=ELSEWHERE):
            await Writer.open(files(tmp_path), WriterOptions())
        await db.put(b"still", b"writing")
        await db.flush_with_options(u.FlushOptions(flush_type=u.FlushType.WAL))
        assert b"still" in [row.key for row in await ours.scan(await files(tmp_path, log=True).latest())]


async def test_a_reader_that_comes_to_it_later_refuses_reads(tmp_path: Path) -> None:
    """While the manifest needs nothing of the log, a reader cannot tell. As soon as it does, the reader refuses."""
    (tmp_path / "main").mkdir()
    (tmp_path / "log").mkdir()
    builder = u.DbBuilder("db", Original(tmp_path / "main", Style()).store)
    builder.with_wal_object_store(Original(tmp_path / "log", Style()).store)
    db = await builder.build()
    reader = await Reader.latest(files(tmp_path), ReaderOptions(poll_interval=3600.0))
    try:
        await db.put(b"k", b"v")
        await db.shutdown_with_options(u.CloseOptions(flush_type=u.FlushType.WAL))
        with pytest.raises(WalTruncated, match=ELSEWHERE):
            await reader.refresh()
        with pytest.raises(WalTruncated, match=ELSEWHERE):
            reader.snapshot()
        (tmp_path / "log" / "db" / "wal").rename(tmp_path / "main" / "db" / "wal")
        await reader.refresh()
        assert [row.key for row in await ours.scan(reader.snapshot())] == [b"k"]
    finally:
        await reader.close()


async def test_a_lost_file_is_told_from_a_log_that_is_elsewhere(closed: Path) -> None:
    needed = (await files(closed).manifest()).needed_wal_ids
    assert len(needed) > 2
    first = closed / "log" / files(closed).paths.wal(needed[1])
    first.unlink()
    with pytest.raises(WalTruncated, match="was lost or deleted") as lost:
        await files(closed, log=True).latest()
    assert first.name in lost.value.message
    with pytest.raises(WalTruncated, match="was lost or deleted"):
        await Writer.open(files(closed, log=True), WriterOptions())
    assert not first.exists(), "no fence may fill the gap"
