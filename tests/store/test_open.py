"""From a url and options to a store: what is understood, what is refused, and that secrets stay secret."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.dialects import DIALECTS, dialect_of
from slate_engine.store.obstore_backend import ObstoreBackend
from slate_engine.store.open import open_backend, open_store
from slate_engine.store.options import OPTIONS, Options, resolve
from slate_engine.store.place import parse_url
from slate_engine.store.protocol import CREATE, Conflict, NotFound, StoreUnavailable

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYEXAMPLEKEYxx"


@pytest.mark.parametrize(
    ("url", "service", "bucket", "prefix", "account", "shown"),
    [
        ("s3://bucket", "s3", "bucket", "", "", "s3://bucket"),
        ("s3://bucket/a/b/", "s3", "bucket", "a/b", "", "s3://bucket/a/b"),
        ("s3a://bucket/a%20b", "s3", "bucket", "a b", "", "s3a://bucket/a b"),
        ("gs://bucket/p", "gcs", "bucket", "p", "", "gs://bucket/p"),
        ("gcs://bucket", "gcs", "bucket", "", "", "gcs://bucket"),
        ("az://container/p", "azure", "container", "p", "", "az://container/p"),
        ("abfs://container/p", "azure", "container", "p", "", "abfs://container/p"),
        ("abfss://c@acc.dfs.core.windows.net/p", "azure", "c", "p", "acc", "abfss://c/p"),
        ("https://acc.blob.core.windows.net/c/p/q", "azure", "c", "p/q", "acc", "az://c/p/q"),
        ("sftp://host/dir", "fsspec", "host", "dir", "", "sftp://host/dir"),
    ],
)
def test_urls(url: str, service: str, bucket: str, prefix: str, account: str, shown: str) -> None:
    place = parse_url(url)
    assert (place.service, place.bucket, place.prefix, place.account) == (service, bucket, prefix, account)
    assert place.url == shown


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/just/a/path",
        "bucket/key",
        "s3://",
        "s3:///prefix",
        "https://example.com/bucket",
        "http://example.com/bucket",
        f"s3://key:{SECRET}@bucket/p",
        "s3://key@bucket/p",
        f"s3://bucket/p?secret={SECRET}",
        "s3://bucket/a/../b",
        "s3://bucket/a//b",
        "file://host/path",
        "nosuchprotocol://x/y",
    ],
)
def test_urls_that_are_refused(url: str) -> None:
    with pytest.raises(InvalidError) as caught:
        open_store(url)
    assert SECRET not in caught.value.message


async def test_memory_is_shared_by_name() -> None:
    await open_store("memory:///shared").put("k", b"1", CREATE)
    assert bytes((await open_store("memory:///shared").get("k")).data) == b"1"
    with pytest.raises(NotFound):
        await open_store("memory:///other").get("k")
    private = open_store("memory://")
    await private.put("k", b"2", CREATE)
    with pytest.raises(NotFound):
        await open_store("memory://").get("k")


async def test_files(tmp_path: Path) -> None:
    store = open_store(f"{tmp_path.as_uri()}/data base")
    await store.put("k", b"1")
    assert os.listdir(tmp_path / "data base") == ["k"]


@pytest.mark.parametrize("service", ["s3", "gcs", "azure", "memory", "file", "fsspec"])
def test_unknown_options_are_named_with_the_known_ones(service: str) -> None:
    with pytest.raises(InvalidError, match="'acess_key' is unknown") as caught:
        resolve(service, {"acess_key": SECRET}, {})
    known = [option.name for option in OPTIONS if service in option.services]
    assert all(name in caught.value.message for name in known)
    assert SECRET not in caught.value.message


def test_options_come_from_the_environment() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "id",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": "token",
        "AWS_DEFAULT_REGION": "eu-west-1",
        "AWS_ENDPOINT_URL": "https://general",
        "AWS_ENDPOINT_URL_S3": "https://special",
        "AWS_ALLOW_HTTP": "true",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": "key",
        "GOOGLE_SERVICE_ACCOUNT": "/file",
        "GOOGLE_BASE_URL": "https://google",
    }
    s3 = resolve("s3", {}, environment).values
    assert s3 == {
        "access_key_id": "id",
        "secret_access_key": SECRET,
        "session_token": "token",
        "region": "eu-west-1",
        "endpoint": "https://special",
        "allow_http": "true",
    }
    assert resolve("azure", None, environment).values == {"account_name": "account", "account_key": "key"}
    assert resolve("gcs", None, environment).values == {"service_account": "/file", "endpoint": "https://google"}
    assert resolve("memory", None, environment).values == {}


def test_options_go_before_the_environment_and_identities_are_not_mixed() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "env",
        "AWS_SECRET_ACCESS_KEY": "env",
        "AWS_SESSION_TOKEN": "env",
        "AWS_REGION": "r",
    }
    given = {"AWS_ACCESS_KEY_ID": "own", "secret_access_key": "own"}
    assert resolve("s3", given, environment).values == {
        "access_key_id": "own",
        "secret_access_key": "own",
        "region": "r",
    }


def test_an_option_given_under_two_names_is_refused() -> None:
    with pytest.raises(InvalidError, match="twice"):
        resolve("s3", {"region": "a", "AWS_REGION": "b"}, {})


def test_azure_connection_strings() -> None:
    text = "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=a2V5==;EndpointSuffix=core.windows.net"
    values = resolve("azure", {"connection_string": text}, {}).values
    assert values == {
        "account_name": "acc",
        "account_key": "a2V5==",
        "endpoint": "https://acc.blob.core.windows.net",
    }
    text = "BlobEndpoint=http://127.0.0.1:1/acc;SharedAccessSignature=sv=1&sig=x;AccountName=acc"
    values = resolve("azure", {"AZURE_STORAGE_CONNECTION_STRING": text}, {}).values
    assert values == {"account_name": "acc", "sas_token": "sv=1&sig=x", "endpoint": "http://127.0.0.1:1/acc"}


@pytest.mark.parametrize(
    ("name", "value"),
    [("timeout", "soon"), ("timeout", "0"), ("probe", "maybe"), ("client", "boto3"), ("dialect", "klingon")],
)
def test_values_that_make_no_sense(name: str, value: str) -> None:
    with pytest.raises(InvalidError, match=f"(?i){name}"):
        open_store("s3://bucket", {name: value, "region": "r"}, environment={})


def test_plain_http_has_to_be_permitted() -> None:
    with pytest.raises(InvalidError, match="allow_http"):
        open_store("s3://bucket", {"endpoint": "http://127.0.0.1:1"}, environment={})


def test_dialects() -> None:
    def of(**options: str) -> object:
        return dialect_of(Options("s3", options))

    assert of() is DIALECTS["aws"]
    assert of(endpoint="http://minio.local:9000") is DIALECTS["aws"]
    assert of(dialect="minio") is DIALECTS["minio"]
    assert of(endpoint="https://abc.r2.cloudflarestorage.com") is DIALECTS["r2"]
    assert of(endpoint="https://fly.storage.tigris.dev") is DIALECTS["tigris"]
    assert of(endpoint="https://t3.storage.dev") is DIALECTS["tigris"]
    assert of(endpoint="https://t3.storage.dev", dialect="aws") is DIALECTS["aws"]


def everything_printable(thing: object, depth: int = 4) -> str:
    """What logging or a debugger might show of an object and of what it holds."""
    text = f"{thing!r} {thing!s}"
    if depth and hasattr(thing, "__dict__") and type(thing).__module__.startswith(("slate_engine", "obstore")):
        text += " ".join(everything_printable(value, depth - 1) for value in vars(thing).values())
    return text


@pytest.mark.parametrize("client", ["obstore", "fsspec"])
@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("s3://b/p", {"access_key_id": "AKIA" + SECRET, "secret_access_key": SECRET, "session_token": SECRET}),
        ("az://c/p", {"account_name": "acc", "account_key": SECRET}),
        ("az://c/p", {"account_name": "acc", "sas_token": f"sv=1&sig={SECRET}"}),
        ("gs://b/p", {"bearer_token": SECRET}),
    ],
)
async def test_secrets_never_show(url: str, options: Mapping[str, str], client: str) -> None:
    local = {"endpoint": "http://127.0.0.1:1", "allow_http": "true", "client": client, "retry_attempts": "1"}
    store = open_store(url, {**options, **local}, environment={})
    assert SECRET not in store.url
    assert SECRET not in everything_printable(store)
    with pytest.raises(StoreUnavailable) as caught:
        await store.put("k", b"")
    assert SECRET not in everything_printable(caught.value)
    assert SECRET not in str(caught.value.__cause__)
    await store.close()


def test_an_obstore_client_does_not_hold_keys_in_its_config(runtime: SystemRuntime) -> None:
    options = {"access_key_id": "id", "secret_access_key": SECRET}
    backend = open_backend("s3://b", options, runtime=runtime, environment={})
    assert isinstance(backend, ObstoreBackend)
    assert SECRET not in str(backend._client.config)


@pytest.mark.parametrize(("client", "module"), [("obstore", "obstore"), ("fsspec", "s3fs")])
def test_a_missing_package_is_named_with_its_extra(client: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [
        name for name in sys.modules if name.startswith(("slate_engine.store.obstore", "slate_engine.store.s3fs"))
    ]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InvalidError, match=r"pip install 'slatekeeper\[s3\]'"):
        open_store("s3://bucket", {"client": client}, environment={})


def test_importing_the_store_imports_no_sdk() -> None:
    code = (
        "import sys, slate_engine.store.open;"
        "print([m for m in ('obstore','fsspec','s3fs','gcsfs','adlfs','botocore','sqlalchemy','numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_other_file_systems_read_and_overwrite_but_do_not_pretend(tmp_path: Path) -> None:
    store = open_store(f"local://{tmp_path}/bucket")
    etag = await store.put("a/k", b"value")
    assert etag == (await store.head("a/k")).etag
    assert bytes((await store.get("a/k")).data) == b"value"
    assert [bytes(part) for part in await store.get_ranges("a/k", [(1, 3), (4, 99), (5, 6)])] == [b"al", b"e", b""]
    await store.copy("a/k", "b/k")
    assert [meta.key async for page in store.list("") for meta in page] == ["a/k", "b/k"]
    assert [meta.key async for page in store.list("", start_after="a/k") for meta in page] == ["b/k"]
    with pytest.raises(InvalidError, match="cas="):
        await store.put("c", b"", CREATE)
    await store.delete(["a/k", "a/k", "none"])
    with pytest.raises(NotFound):
        await store.get("a/k")
    assert sorted(os.listdir(tmp_path / "bucket" / "b")) == ["k"]


async def test_two_phase_cas_stands_in_for_conditional_writes(tmp_path: Path) -> None:
    options = {"cas": f"sqlite:///{tmp_path}/cas.sqlite"}
    store = open_store(f"local://{tmp_path}/bucket", options, registry=CollectorRegistry())
    await store.put("manifest/1", b"first", CREATE)
    with pytest.raises(Conflict):
        await store.put("manifest/1", b"second", CREATE)
    assert bytes((await store.get("manifest/1")).data) == b"first"
    await store.close()
