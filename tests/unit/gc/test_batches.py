"""What a thousand deletions cost on S3: one request, whichever client sends it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from slate_engine.store.open import open_store

Server = tuple[str, list[int]]


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    """Says yes to every request to delete, and keeps how many objects each was about."""
    sizes: list[int] = []

    async def answer(request: web.Request) -> web.Response:
        assert request.method == "POST", f"{request.method} {request.path_qs}"
        assert "delete" in request.query
        keys = re.findall(r"<Key>(.*?)</Key>", (await request.read()).decode())
        sizes.append(len(keys))
        deleted = "".join(f"<Deleted><Key>{key}</Key></Deleted>" for key in keys)
        return web.Response(text=f"<DeleteResult>{deleted}</DeleteResult>", content_type="application/xml")

    app = web.Application(client_max_size=1 << 24)
    app.router.add_route("*", "/{key:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", sizes
    await runner.cleanup()


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_a_thousand_objects_go_with_one_request(server: Server, client: str) -> None:
    endpoint, sizes = server
    options = {"endpoint": endpoint, "allow_http": "true", "access_key_id": "id", "secret_access_key": "secret"}
    store = open_store("s3://scripted/db", {**options, "client": client, "probe": "false"}, environment={})
    await store.delete(f"compacted/{number:026d}.sst" for number in range(2500))
    await store.close()
    assert sizes == [1000, 1000, 500]
