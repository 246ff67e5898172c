"""Lost requests, lost answers and dying servers, with real clients and real servers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_backend, open_store
from slate_engine.store.protocol import CREATE, Buffer, Conflict, NotFound, ObjectStore, StoreUnavailable, Update
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs
from tests.servers.proxy import Loss, LossyProxy
from tests.servers.versitygw import VersityGW

pytestmark = [pytest.mark.servers, pytest.mark.timeout(300)]
MIB = 1 << 20


@dataclass
class Site:
    """A server of its own, and how its clients write."""

    server: VersityGW | Azurite | FakeGcs
    scheme: str
    client: str

    @property
    def put_method(self) -> str:
        return "POST" if self.scheme == "gs" else "PUT"

    def writes(self, line: str) -> bool:
        """Whether a request's first line is that of a plain write."""
        return line.startswith(self.put_method)

    def completes_stream(self, line: str) -> bool:
        """Whether it is the last request of a multipart upload."""
        return {
            "s3": line.startswith("POST") and "uploadId=" in line,
            "az": line.startswith("PUT") and "comp=blocklist" in line,
            "gs": line.startswith("PUT"),
        }[self.scheme]

    def make_bucket(self) -> None:
        if isinstance(self.server, Azurite):
            self.server.make_container("losses")
        else:
            self.server.make_bucket("losses")

    def restart(self) -> None:
        self.server.start()
        if isinstance(self.server, Azurite):
            self.make_bucket()  # it writes its catalogue every few seconds only, so a kill takes the container too

    def options(self, endpoint: str = "") -> dict[str, str]:
        options = {**self.server.options(), "client": self.client, "probe": "false"}
        return {**options, "endpoint": endpoint} if endpoint else options

    def open(self, prefix: str, endpoint: str = "") -> ObjectStore:
        return open_store(f"{self.scheme}://losses/{prefix}", self.options(endpoint))


SITES: dict[str, tuple[Callable[[Path], VersityGW | Azurite | FakeGcs], str, str]] = {
    "s3-obstore": (VersityGW, "s3", "obstore"),
    "s3-s3fs": (VersityGW, "s3", "fsspec"),
    "azure-obstore": (Azurite, "az", "obstore"),
    "azure-adlfs": (Azurite, "az", "fsspec"),
    "gcs-gcsfs": (FakeGcs, "gs", "fsspec"),
}


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    make, scheme, client = SITES[request.param]
    with make(tmp_path / "server") as server:
        site = Site(server, scheme, client)
        site.make_bucket()
        yield site


@pytest.fixture
async def proxy(site: Site) -> AsyncIterator[LossyProxy]:
    async with LossyProxy(site.server.endpoint) as proxy:
        yield proxy


async def test_no_client_sends_a_write_twice(site: Site, proxy: LossyProxy, runtime: SystemRuntime) -> None:
    """An unseen second attempt would turn a success into a conflict with ourselves."""
    backend = open_backend(f"{site.scheme}://losses/db", site.options(proxy.endpoint), runtime=runtime)
    await backend.put("warm", b"")
    for loss in (Loss.ANSWER, Loss.REQUEST):
        proxy.seen.clear()
        proxy.lose(loss, site.writes)
        with pytest.raises(StoreUnavailable) as caught:
            await backend.put(f"k-{loss.value}", b"content", CREATE)
        assert caught.value.unknown_outcome
        assert caught.value.retryable
        assert len([line for line in proxy.seen if site.writes(line)]) == 1
    assert bytes((await backend.get("k-answer")).data) == b"content"
    with pytest.raises(NotFound):
        await backend.get("k-request")
    await backend.close()


@pytest.mark.parametrize("loss", [Loss.ANSWER, Loss.REQUEST])
async def test_a_loss_does_not_show(site: Site, proxy: LossyProxy, loss: Loss) -> None:
    store, direct = site.open("db", proxy.endpoint), site.open("db")
    for data in (b"", b"content"):
        key = f"k{len(data)}"
        proxy.lose(loss, site.writes)
        created = await store.put(key, data, CREATE)
        assert (await direct.head(key)).etag == created
        proxy.lose(loss, site.writes)
        updated = await store.put(key, data + b"!", Update(created))
        found = await direct.get(key)
        assert (bytes(found.data), found.meta.etag) == (data + b"!", updated)
        proxy.lose(loss, site.writes)
        overwritten = await store.put(key, b"over")
        assert (await direct.head(key)).etag == overwritten
        with pytest.raises(Conflict):
            await store.put(key, b"", CREATE)
    await store.close()
    await direct.close()


async def test_the_same_bytes_of_another_writer_are_a_conflict(site: Site, proxy: LossyProxy) -> None:
    store, other = site.open("db", proxy.endpoint), site.open("db")
    proxy.lose(Loss.REQUEST, site.writes, meanwhile=lambda: other.put("fence", b"", CREATE))
    with pytest.raises(Conflict):
        await store.put("fence", b"", CREATE)
    etag = (await other.head("fence")).etag
    proxy.lose(Loss.REQUEST, site.writes, meanwhile=lambda: other.put("fence", b"7", Update(etag)))
    with pytest.raises(Conflict):
        await store.put("fence", b"7", Update(etag))
    await store.close()
    await other.close()


async def test_a_successor_of_our_lost_write_leaves_it_open(site: Site, proxy: LossyProxy) -> None:
    store, other = site.open("db", proxy.endpoint), site.open("db")

    async def supersede() -> None:
        await other.put("k", b"theirs", Update((await other.head("k")).etag))

    proxy.lose(Loss.ANSWER, site.writes, meanwhile=supersede)
    with pytest.raises(StoreUnavailable) as caught:
        await store.put("k", b"ours", CREATE)
    assert caught.value.unknown_outcome
    await store.close()
    await other.close()


async def test_a_stream_whose_last_answer_was_lost_is_recognised(site: Site, proxy: LossyProxy) -> None:
    store = site.open("db", proxy.endpoint)

    async def chunks() -> AsyncIterator[Buffer]:
        for number in range(17):
            yield bytes([number]) * MIB

    completions = 0

    def last(line: str) -> bool:
        # Google's parts all look alike; the third one is the last.
        nonlocal completions
        completions += site.completes_stream(line)
        return completions == (3 if site.scheme == "gs" else 1)

    proxy.lose(Loss.ANSWER, last)
    etag = await store.put_stream("sst", chunks())
    found = await store.head("sst")
    assert (found.size, found.etag) == (17 * MIB, etag)
    await store.close()


@pytest.mark.parametrize("delay", [0.0, 0.01, 0.03, 0.1])
async def test_a_server_that_dies_in_a_write(site: Site, runtime: SystemRuntime, delay: float) -> None:
    """The client gets a typed error; after a restart the object is absent or whole."""
    backend = open_backend(f"{site.scheme}://losses/db", site.options(), runtime=runtime)
    data = bytes(range(256)) * (64 * MIB // 256)
    write = asyncio.create_task(backend.put("big", data, CREATE))
    await asyncio.sleep(delay)
    site.server.kill()
    (error,) = await asyncio.gather(write, return_exceptions=True)
    assert isinstance(error, str | StoreUnavailable), "neither an etag nor the error for a store that is away"
    site.restart()
    try:
        found = await backend.get("big")
    except NotFound:
        pass
    else:
        assert bytes(found.data) == data
    await backend.close()


async def test_a_write_outlives_a_restart(site: Site) -> None:
    store = site.open("db")
    data = bytes(range(256)) * (32 * MIB // 256)
    write = asyncio.create_task(store.put("big", data, CREATE))
    await asyncio.sleep(0.02)
    site.server.kill()
    await asyncio.sleep(0.3)
    site.restart()
    etag = await write
    found = await store.get("big")
    assert (bytes(found.data), found.meta.etag) == (data, etag)
    with pytest.raises(Conflict):
        await store.put("big", data, CREATE)
    await store.close()
