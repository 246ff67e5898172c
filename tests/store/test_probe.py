"""A store whose conditional writes do not hold is refused before anything relies on them."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.open import open_store
from slate_engine.store.probe import FOLDER, ConditionalWritesUnsupported, ProbedStore, Proofs, prove
from slate_engine.store.protocol import (
    CREATE,
    OVERWRITE,
    Buffer,
    Conflict,
    Create,
    Denied,
    Object,
    PutMode,
    Update,
)
from tests.store.contract.suite import listed

WEEK_MS = 7 * 24 * 3600 * 1000


class Liar(MemoryStore):
    """Answers yes to everything."""

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await super().put(key, data, OVERWRITE, mark=mark)


class IgnoresUpdates(MemoryStore):
    """Knows If-None-Match and has never heard of If-Match."""

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await super().put(key, data, OVERWRITE if isinstance(mode, Update) else mode, mark=mark)


class ChecksThenWrites(MemoryStore):
    """Right as long as writers come one by one: every sequential test passes."""

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        present = self._objects.get(key)
        if isinstance(mode, Create) and present is not None:
            raise Conflict(key, mode)
        if isinstance(mode, Update) and (present is None or present[0].meta.etag != mode.etag):
            raise Conflict(key, mode)
        await asyncio.sleep(0.001)
        return await super().put(key, data, OVERWRITE, mark=mark)


class RefusesEverything(MemoryStore):
    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        raise Conflict(key, mode)


class KeepsTheLoser(MemoryStore):
    """Tells one writer that it won, and stores something else."""

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        return await super().put(key, data, mode, mark=mark)

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        found = await super().get(key, if_none_match=if_none_match)
        return Object(found.meta, b"something else") if "race" in key else found


def probed(store: MemoryStore, runtime: SystemRuntime, place: str = "here", folder: Path | None = None) -> ProbedStore:
    return ProbedStore(store, runtime, Proofs(runtime, {}, folder), place)


async def test_a_store_that_holds_passes_and_nothing_stays_behind(runtime: SystemRuntime) -> None:
    memory = MemoryStore(runtime)
    await prove(memory, runtime)
    assert await listed(memory, "") == []


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Liar, "create an object that exists"),
        (IgnoresUpdates, "update with a wrong etag"),
        (ChecksThenWrites, "one of several creators wins"),
        (RefusesEverything, "create a new object"),
        (KeepsTheLoser, "one of several creators wins"),
    ],
)
async def test_a_store_that_does_not_hold_is_refused(
    broken: type[MemoryStore], check: str, runtime: SystemRuntime
) -> None:
    memory = broken(runtime, name="bad")
    store = probed(memory, runtime)
    with pytest.raises(ConditionalWritesUnsupported) as caught:
        await store.put("manifest/1", b"", CREATE)
    assert caught.value.check == check
    assert check in caught.value.message
    assert "memory:///bad" in caught.value.message
    assert "cas=" in caught.value.message
    assert await listed(memory, "") == []
    with pytest.raises(ConditionalWritesUnsupported):
        await store.put("manifest/1", b"", Update("1"))


async def test_only_conditional_writes_ask_for_the_proof(runtime: SystemRuntime) -> None:
    store = probed(Liar(runtime), runtime)
    await store.put("a", b"1")
    assert bytes((await store.get("a")).data) == b"1"
    await store.copy("a", "b")
    assert [meta.key for meta in await listed(store, "")] == ["a", "b"]
    await store.delete(["a", "b"])


class Counting(MemoryStore):
    puts = 0

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
        self.puts += key.startswith(FOLDER)
        return await super().put(key, data, mode, mark=mark)


async def test_a_place_is_proven_once(runtime: SystemRuntime, tmp_path: Path) -> None:
    memory = Counting(runtime)
    held: dict[str, int] = {}
    store = ProbedStore(memory, runtime, Proofs(runtime, held), "here")
    await asyncio.gather(*(store.put(f"k{number}", b"", CREATE) for number in range(5)))
    once = memory.puts
    assert once > 0
    await ProbedStore(memory, runtime, Proofs(runtime, held), "here").put("in process", b"", CREATE)
    assert memory.puts == once
    await ProbedStore(memory, runtime, Proofs(runtime, held), "elsewhere").put("another place", b"", CREATE)
    assert memory.puts == 2 * once


async def test_a_proof_outlives_the_process_for_a_week(tmp_path: Path) -> None:
    class Later(SystemRuntime):
        ahead = 0

        def now_ms(self) -> int:
            return super().now_ms() + self.ahead

    runtime = Later()
    memory = Counting(runtime)
    await probed(memory, runtime, folder=tmp_path).put("a", b"", CREATE)
    once = memory.puts
    await probed(memory, runtime, folder=tmp_path).put("b", b"", CREATE)
    assert memory.puts == once
    runtime.ahead = WEEK_MS + 1000
    await probed(memory, runtime, folder=tmp_path).put("c", b"", CREATE)
    assert memory.puts == 2 * once
    for name in os.listdir(tmp_path):
        (tmp_path / name).write_text("garbage")
    await probed(memory, runtime, folder=tmp_path).put("d", b"", CREATE)
    assert memory.puts == 3 * once


async def test_a_refusal_is_not_remembered(runtime: SystemRuntime, tmp_path: Path) -> None:
    """The server may have been mended or replaced."""
    with pytest.raises(ConditionalWritesUnsupported):
        await probed(Liar(runtime), runtime, folder=tmp_path).put("a", b"", CREATE)
    await probed(MemoryStore(runtime), runtime, folder=tmp_path).put("a", b"", CREATE)


async def test_missing_permission_is_not_taken_for_a_broken_server(runtime: SystemRuntime) -> None:
    class Forbidden(MemoryStore):
        async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE, *, mark: str = "") -> str:
            raise Denied("read only")

    with pytest.raises(Denied):
        await probed(Forbidden(runtime), runtime).put("a", b"", CREATE)


@pytest.fixture
async def lying_server() -> AsyncIterator[str]:
    """Speaks enough S3 to please a client, and answers 200 to everything."""
    objects: dict[str, bytes] = {}

    async def answer(request: web.Request) -> web.Response:
        key = request.path
        if request.method == "PUT":
            objects[key] = await request.read()
        etag = hashlib.md5(objects.get(key, b"")).hexdigest()
        headers = {"ETag": f'"{etag}"', "Last-Modified": "Tue, 17 Nov 2026 08:00:00 GMT"}
        return web.Response(body=objects.get(key, b"") if request.method == "GET" else b"", headers=headers)

    app = web.Application()
    app.router.add_route("*", "/{key:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    await runner.cleanup()


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_an_s3_server_that_answers_200_to_everything(lying_server: str, client: str) -> None:
    options = {
        "endpoint": lying_server,
        "access_key_id": "key",
        "secret_access_key": "secret",
        "allow_http": "true",
        "client": client,
        "retry_attempts": "1",
    }
    store = open_store(f"s3://liar-{client}/db", options)
    await store.put("overwriting", b"is possible")
    with pytest.raises(ConditionalWritesUnsupported, match="create an object that exists"):
        await store.put("manifest/1", b"", CREATE)
    await store.close()
