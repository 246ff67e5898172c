"""The epoch of a writer, in the manifest and on every file of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from slate_engine.errors import Fenced
from slate_engine.lsm.commit import Change
from slate_engine.lsm.fencing import fence_log
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.tenure import WRITER_EPOCH, Tenure
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.cost import Request, Tally
from slate_engine.store.memory import MemoryStore
from slate_engine.store.open import open_store
from slate_engine.store.protocol import CREATE, OVERWRITE, Buffer, Create, ObjectStore, PutMode
from tests.servers.versitygw import VersityGW

RUNTIME = SystemRuntime()


def files(store: ObjectStore) -> DatabaseFiles:
    return DatabaseFiles(store, "db", RUNTIME)


def signed(epoch: int) -> Create:
    return Create(((WRITER_EPOCH, str(epoch)),))


async def written(store: ObjectStore) -> Writer:
    writer = await Writer.open(files(store), WriterOptions(manifest_poll_interval=3600))
    await (await writer.write([Change(b"k", b"v")])).durable()
    return writer


async def epochs(store: ObjectStore) -> list[str | None]:
    """What each file of the log says of its writer."""
    keys = [meta.key async for page in store.list("db/wal/") for meta in page]
    return [dict((await store.head(key)).attributes).get(WRITER_EPOCH) for key in keys]


async def check_signatures(store: ObjectStore) -> None:
    """Fences and files are signed, and whoever is fenced learns by whom."""
    older = await written(store)
    newer = await written(store)
    assert await epochs(store) == ["1", "1", "2", "2"]
    with pytest.raises(Fenced, match=r"writer epoch 2 .* \(1\): WAL file 3 was written by writer epoch 2; stop"):
        await (await older.write([Change(b"k", b"late")])).durable()
    await newer.close()


async def test_every_file_of_the_log_is_signed() -> None:
    await check_signatures(MemoryStore(RUNTIME))


async def test_a_signature_costs_no_request() -> None:
    meter = Tally()
    writer = await written(MemoryStore(RUNTIME, meter=meter))
    before = dict(meter.requests)
    for _ in range(5):
        await (await writer.write([Change(b"k", b"v")])).durable()
    assert {kind: n - before[kind] for kind, n in meter.requests.items() if n != before[kind]} == {Request.PUT: 5}
    await writer.close()


async def test_an_id_taken_under_our_own_epoch_is_told() -> None:
    """As by a tool that writes behind our back: the manifest has no newer writer."""
    store = MemoryStore(RUNTIME)
    writer = await written(store)
    await store.put(files(store).paths.wal(3), b"", signed(7))
    with pytest.raises(
        Fenced, match=r"took WAL file 3 .* newest epoch \(1\): WAL file 3 was written by writer epoch 7"
    ):
        await (await writer.write([Change(b"k", b"v")])).durable()


async def test_files_without_a_signature_are_told_without_one() -> None:
    store = MemoryStore(RUNTIME)
    writer = await written(store)
    await store.put(files(store).paths.wal(3), b"", CREATE)
    with pytest.raises(Fenced, match=r"took WAL file 3 while this writer has the newest epoch \(1\); let"):
        await (await writer.write([Change(b"k", b"v")])).durable()


class Raced(MemoryStore):
    """Somebody else is faster with the first file after ``rivals`` are set."""

    rivals: Iterator[Create] = iter(())

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        if "/wal/" in key and (rival := next(self.rivals, None)) is not None:
            await super().put(key, b"", rival)
        return await super().put(key, data, mode, mark=mark)


@pytest.mark.parametrize("rival", [signed(1), CREATE], ids=["signed", "unsigned"])
async def test_an_older_writer_that_was_faster_is_passed(rival: Create) -> None:
    store = Raced(RUNTIME)
    await (await written(store)).close()
    store.rivals = iter([rival])
    writer = await written(store)
    assert (await epochs(store))[2:] == [dict(rival.attributes).get(WRITER_EPOCH), "2", "2"]
    await writer.close()


@pytest.mark.parametrize("epoch", [2, 3], ids=["of our own epoch", "of a later epoch"])
async def test_a_faster_writer_that_cannot_be_is_not_passed(epoch: int) -> None:
    """The manifest has just given epoch 2 to us, and to nobody another one since: so it is not to be trusted."""
    store = Raced(RUNTIME)
    await (await written(store)).close()
    store.rivals = iter([signed(epoch)])
    with pytest.raises(Fenced, match=f"WAL file 3 was written by writer epoch {epoch}, while"):
        await Writer.open(files(store), WriterOptions())


async def test_of_two_that_open_at_once_one_has_the_log() -> None:
    store = MemoryStore(RUNTIME)
    await (await written(store)).close()
    opened = await asyncio.gather(written(store), written(store), return_exceptions=True)
    fences = [fence async for page in store.list("db/wal/") for fence in page]
    assert len(fences) >= 4
    for writer in opened:
        if isinstance(writer, Writer) and writer.error is None:
            await writer.close()


async def test_a_log_that_nobody_contests_is_fenced_at_its_end() -> None:
    store = MemoryStore(RUNTIME)
    await (await written(store)).close()
    assert await fence_log(Tenure(files(store), 1)) == 3


@pytest.mark.servers
async def test_signatures_on_a_real_server(tmp_path: Path) -> None:
    with VersityGW(tmp_path / "s3") as server:
        server.make_bucket("tenure")
        store = open_store("s3://tenure/some/prefix", server.options())
        try:
            await check_signatures(store)
        finally:
            await store.close()
