"""What is special to a service: its refusals, its limits, and that SlateDB does not mind our marks."""

from __future__ import annotations

import json
from pathlib import Path

import obstore
import pytest
import slatedb.uniffi as wheel
from obstore.exceptions import GenericError

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.failure import Failed, Failure
from slate_engine.store.obstore_backend import ObstoreBackend
from slate_engine.store.open import open_backend, open_store
from slate_engine.store.protocol import CREATE, Denied, NotFound
from slate_engine.store.s3fs_backend import S3fsBackend
from tests.servers import azurite, versitygw
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs
from tests.servers.proxy import LossyProxy
from tests.servers.versitygw import VersityGW

pytestmark = pytest.mark.servers
DATA = Path(__file__).parents[2] / "data"
WRONG = "d3JvbmdzZWNyZXR3cm9uZ3NlY3JldHdyb25nc2VjcmV0"
MIB = 1 << 20


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_s3_with_a_wrong_secret(s3_server: VersityGW, client: str) -> None:
    store = open_store("s3://contract/x", {**s3_server.options(), "secret_access_key": WRONG, "client": client})
    for call in (store.get("k"), store.put("k", b""), store.put("k", b"", CREATE), store.head("k")):
        with pytest.raises(Denied) as caught:
            await call
        for secret in (WRONG, versitygw.ACCESS_KEY, versitygw.SECRET_KEY, "Signature=", "AWS4-HMAC"):
            assert secret not in str(caught.value)
    await store.close()


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_s3_with_an_unknown_key(s3_server: VersityGW, client: str) -> None:
    store = open_store("s3://contract/x", {**s3_server.options(), "access_key_id": "NOBODY", "client": client})
    with pytest.raises(Denied, match="check the credentials"):
        await store.get("k")
    await store.close()


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_azure_with_a_wrong_key(azure_server: Azurite, client: str) -> None:
    store = open_store("az://contract/x", {**azure_server.options(), "account_key": WRONG, "client": client})
    for call in (store.get("k"), store.put("k", b""), store.put("k", b"", CREATE)):
        with pytest.raises(Denied) as caught:
            await call
        for secret in (WRONG, azurite.KEY, "SharedKey"):
            assert secret not in str(caught.value)
    await store.close()


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_a_missing_bucket_is_named(s3_server: VersityGW, azure_server: Azurite, client: str) -> None:
    for url, options in (("s3://nowhere/x", s3_server.options()), ("az://nowhere/x", azure_server.options())):
        store = open_store(url, {**options, "client": client})
        for call in (store.get("k"), store.put("k", b""), store.put("k", b"", CREATE)):
            with pytest.raises(InvalidError, match=r"nowhere.*(bucket|container)") as caught:
                await call
            assert not isinstance(caught.value, NotFound | Denied)
        await store.close()


async def test_a_missing_bucket_of_google_is_named(gcs_server: FakeGcs) -> None:
    store = open_store("gs://nowhere/x", {**gcs_server.options(), "client": "fsspec"})
    with pytest.raises(InvalidError, match="bucket"):
        await store.put("k", b"")
    await store.close()


async def test_obstore_copies_what_s3_will_not(
    s3_server: VersityGW, runtime: SystemRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses as S3 does above 5 GiB; the limit is set low, so that the test need not be that large."""

    async def refuse(*args: object, **kwargs: object) -> None:
        raise GenericError("Server returned non-2xx status code: 400 Bad Request: <Code>InvalidRequest</Code>")

    backend = open_backend("s3://contract/copies/obstore", s3_server.options(), runtime=runtime)
    assert isinstance(backend, ObstoreBackend)
    data = bytes(range(256)) * (20 * MIB // 256)
    await backend.put("large", data)
    monkeypatch.setattr(obstore, "copy_async", refuse)
    with pytest.raises(InvalidError):
        await backend.copy("large", "copied")
    monkeypatch.setattr(backend, "_copy_limit", 10 * MIB)
    await backend.copy("large", "copied")
    assert bytes((await backend.get("copied")).data) == data


async def test_s3fs_copies_in_parts_what_s3_will_not(
    s3_server: VersityGW, runtime: SystemRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {**s3_server.options(), "client": "fsspec"}
    backend = open_backend("s3://contract/copies/s3fs", options, runtime=runtime)
    assert isinstance(backend, S3fsBackend)
    send = backend._send

    async def refuse(method: str, key: str, **arguments: object) -> object:
        if method == "copy_object":
            raise Failed(Failure(400, "InvalidRequest"))
        return await send(method, key, **arguments)

    data = bytes(range(256)) * (12 * MIB // 256)
    await backend.put("large", data)
    monkeypatch.setattr(backend, "_send", refuse)
    with pytest.raises(InvalidError):
        await backend.copy("large", "copied")
    monkeypatch.setattr(backend, "_copy_limit", 5 * MIB)
    await backend.copy("large", "copied")
    assert bytes((await backend.get("copied")).data) == data
    await backend.close()


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
async def test_tigris_is_asked_to_be_consistent(s3_server: VersityGW, runtime: SystemRuntime, client: str) -> None:
    async with LossyProxy(s3_server.endpoint) as proxy:
        options = {**s3_server.options(), "endpoint": proxy.endpoint, "dialect": "tigris", "client": client}
        backend = open_backend(f"s3://contract/tigris/{client}", {**options, "region": "us-east-1"}, runtime=runtime)
        await backend.put("k", b"", CREATE)
        await backend.get("k")
        assert len(proxy.heads) == 2
        assert all("x-tigris-consistent: true" in head.lower() for head in proxy.heads)
        await backend.close()


async def test_slatedb_does_not_mind_our_marks(s3_server: VersityGW, monkeypatch: pytest.MonkeyPatch) -> None:
    """A database that went through our store object by object, each with its mark, opens in the original."""
    database = DATA / "store" / "codec_zstd"
    store = open_store("s3://contract", s3_server.options())
    for path in sorted(database.rglob("*.*")):
        await store.put(f"marked/{path.relative_to(database)}", path.read_bytes(), CREATE)
    await store.close()
    for name, value in {
        "AWS_ACCESS_KEY_ID": versitygw.ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": versitygw.SECRET_KEY,
        "AWS_REGION": versitygw.REGION,
        "AWS_ENDPOINT": s3_server.endpoint,
        "AWS_ALLOW_HTTP": "true",
    }.items():
        monkeypatch.setenv(name, value)
    db = await wheel.DbBuilder("marked", wheel.ObjectStore.resolve("s3://contract")).build()
    rows = await db.scan(wheel.KeyRange(start=None, start_inclusive=False, end=None, end_inclusive=False))
    found = []
    while (row := await rows.next()) is not None:
        found.append([row.key.hex(), row.value.hex()])
    await db.shutdown()
    expected = json.loads((DATA / "expected" / "codec_zstd.json").read_text())
    assert found == [row[:2] for row in expected]
