"""Where stores come from: urls, the environment, options; as both implementations have it, as far as that goes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import slate_engine
from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "GOOGLE_")) or name in ("CLOUD_PROVIDER", "LOCAL_PATH"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("url", ["memory:", "memory://", "memory:///"])
async def test_every_memory_url_is_a_new_store(kit: Any, url: str) -> None:
    store = kit.lib.ObjectStore.resolve(url)
    async with kit.db(store) as db:
        await db.put(b"k", b"v")
    async with kit.db(store) as db:
        assert await db.get(b"k") == b"v"
    async with kit.db(kit.lib.ObjectStore.resolve(url)) as db:
        assert await db.get(b"k") is None


@pytest.mark.parametrize("url", ["file:///", "file:", "s3://bucket", "gs://bucket", "abfss://c@a.dfs.core.windows.net"])
def test_stores_that_resolve(kit: Any, url: str) -> None:
    assert kit.lib.ObjectStore.resolve(url) is not None


@pytest.mark.parametrize("url", ["memory:///x", "file:///tmp", "s3://bucket/path"])
def test_the_path_belongs_to_the_builder(kit: Any, url: str) -> None:
    with pytest.raises(kit.lib.Error.Invalid) as caught:
        kit.lib.ObjectStore.resolve(url)
    assert caught.value.message.startswith(
        "Invalid error: invalid object store path. provide path to builder instead. path=`"
    )


@pytest.mark.parametrize("url", ["", "memory", "/tmp"])
def test_what_is_no_url(kit: Any, url: str) -> None:
    with pytest.raises(kit.lib.Error.Invalid) as caught:
        kit.lib.ObjectStore.resolve(url)
    assert caught.value.message.startswith(f"Invalid error: invalid object store URL. url=`{url}`")


def test_constructors_that_there_are_not(kit: Any) -> None:
    lib = kit.lib
    for cls in (lib.ObjectStore, lib.Db, lib.DbReader, lib.DbSnapshot, lib.DbTransaction, lib.DbIterator, lib.Admin):
        with pytest.raises(ValueError, match="no default constructor"):
            cls()
    with pytest.raises(TypeError):
        lib.ObjectStore.resolve(3)
    with pytest.raises(ValueError, match="x"):
        lib.ObjectStoreBuilder("x")


async def test_a_url_in_a_builder_may_have_a_path(kit: Any, tmp_path: Path) -> None:
    store = kit.lib.ObjectStoreBuilder.from_url(tmp_path.as_uri()).build()
    async with kit.db(store, "deep/down") as db:
        await db.put(b"k", b"v")
    assert {path.name for path in (tmp_path / "deep" / "down").iterdir()} >= {"compacted", "manifest", "wal"}


async def test_a_local_store(kit: Any, tmp_path: Path) -> None:
    lib = kit.lib
    builder = lib.ObjectStoreBuilder(lib.ObjectStoreType.LOCAL)
    builder.with_config("local_path", str(tmp_path))
    async with kit.db(builder.build(), "db") as db:
        await db.put(b"k", b"v")
    assert (tmp_path / "db" / "manifest").is_dir()
    for wrong in (lambda: builder.build(), lambda: builder.with_config("local_path", "x")):
        with pytest.raises(lib.Error.Invalid, match="builder has already been consumed"):
            wrong()
    with pytest.raises(lib.Error.Invalid, match="missing required Local object store config key: local_path"):
        lib.ObjectStoreBuilder(lib.ObjectStoreType.LOCAL).build()
    nowhere = lib.ObjectStoreBuilder(lib.ObjectStoreType.LOCAL)
    nowhere.with_config("local_path", str(tmp_path / "nowhere"))
    with pytest.raises(lib.Error.Invalid, match="object store creation failed: "):
        nowhere.build()


@pytest.mark.parametrize(
    ("kind", "config", "works"),
    [
        ("S3", {"bucket": "b", "region": "r"}, True),
        ("S3", {"aws_bucket_name": "b", "aws_access_key_id": "k", "aws_secret_access_key": "s"}, True),
        ("S3", {"bucket": "b", "endpoint": "http://localhost:1", "allow_http": "true", "skip_signature": "true"}, True),
        ("S3", {"bucket": "b", "conditional_put": "etag"}, True),
        ("S3", {}, False),
        ("AZURE", {"container_name": "c", "account_name": "n", "access_key": "aGk="}, True),
        ("AZURE", {"azure_container_name": "c", "azure_storage_account_name": "n"}, True),
        ("AZURE", {"container_name": "c"}, False),
        ("GCS", {"bucket": "b"}, True),
        ("GCS", {}, False),
        ("IN_MEMORY", {"whatever": "x"}, True),
    ],
)
def test_options(kit: Any, kind: str, config: dict[str, str], works: bool) -> None:
    builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType[kind])
    for key, value in config.items():
        builder.with_config(key, value)
    if works:
        assert builder.build() is not None
    else:
        with pytest.raises(kit.lib.Error.Invalid, match="object store creation failed: "):
            builder.build()


@pytest.mark.parametrize(("kind", "label"), [("S3", "S3"), ("AZURE", "Azure"), ("GCS", "GCS"), ("LOCAL", "Local")])
def test_unknown_options_are_refused(kit: Any, kind: str, label: str) -> None:
    builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType[kind])
    with pytest.raises(kit.lib.Error.Invalid, match=f"invalid {label} object store config key: nonsense"):
        builder.with_config("nonsense", "1")


def test_a_url_of_another_service_is_refused(kit: Any) -> None:
    builder = kit.lib.ObjectStoreBuilder(kit.lib.ObjectStoreType.S3)
    builder.with_url("gs://bucket")
    with pytest.raises(kit.lib.Error.Invalid, match="object store creation failed: "):
        builder.build()


def test_from_the_environment(ours: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only ours: what the original reads of a file stays in the environment of its process, for all tests to come."""
    store = ours.lib.ObjectStore
    with pytest.raises(ours.lib.Error.Invalid, match="invalid environment variable CLOUD_PROVIDER value `null`"):
        store.from_env(None)
    (tmp_path / "settings.env").write_text("# a comment\nexport CLOUD_PROVIDER='local'\nLOCAL_PATH=" + str(tmp_path))
    assert "file://" in repr(store.from_env(str(tmp_path / "settings.env")))
    assert "CLOUD_PROVIDER" not in os.environ
    (tmp_path / ".env").write_text("CLOUD_PROVIDER=memory\n")
    assert "memory:" in repr(store.from_env(None))
    monkeypatch.setenv("CLOUD_PROVIDER", "AWS")
    monkeypatch.setenv("AWS_BUCKET", "bucket")
    assert "s3://bucket" in repr(store.from_env(None))
    monkeypatch.setenv("CLOUD_PROVIDER", "abacus")
    with pytest.raises(ours.lib.Error.Invalid, match="CLOUD_PROVIDER value `abacus`"):
        store.from_env(None)
    monkeypatch.setenv("CLOUD_PROVIDER", "local")
    with pytest.raises(ours.lib.Error.Invalid, match="LOCAL_PATH value `null`"):
        store.from_env(None)


def test_a_builder_from_the_environment(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = kit.lib.ObjectStoreType.S3
    with pytest.raises(kit.lib.Error.Invalid, match="object store creation failed: "):
        kit.lib.ObjectStoreBuilder.from_env(kind).build()
    monkeypatch.setenv("AWS_BUCKET", "bucket")
    if kit.is_ours:  # the original looks at the process's environment, which Python changes only for itself
        assert kit.lib.ObjectStoreBuilder.from_env(kind).build() is not None


def test_passwords_in_urls_are_not_repeated() -> None:
    with pytest.raises(slate_engine.Error.Invalid) as caught:
        slate_engine.ObjectStore.resolve("s3://me:secret@bucket")
    assert "secret" not in caught.value.message


async def test_a_store_of_the_engine_itself(ours: Any) -> None:
    store = MemoryStore(SystemRuntime())
    async with ours.db(slate_engine.ObjectStore.of(store)) as db:
        await db.put(b"k", b"v")
    assert [meta.key async for page in store.list("db/manifest/") for meta in page]
