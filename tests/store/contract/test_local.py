"""The contract on what needs no server: memory and local files."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slate_engine.runtime import SystemRuntime
from slate_engine.store.files import FileStore
from slate_engine.store.memory import MemoryStore
from slate_engine.store.open import open_store
from slate_engine.store.protocol import ObjectStore
from slate_engine.store.retry import RetryingStore
from tests.servers.gcs_xml import gcs_xml
from tests.store.contract.suite import MIB, StoreContract


class TestMemory(StoreContract):
    @pytest.fixture
    def store(self, runtime: SystemRuntime) -> ObjectStore:
        return MemoryStore(runtime)


class TestRetryingMemory(StoreContract):
    """The wrapper that the remote stores have in front of them, on a store that never fails."""

    @pytest.fixture
    def store(self, runtime: SystemRuntime) -> ObjectStore:
        return RetryingStore(MemoryStore(runtime), runtime)


class TestFiles(StoreContract):
    keeps_attributes = False

    @pytest.fixture
    def store(self, runtime: SystemRuntime, tmp_path: Path) -> ObjectStore:
        return FileStore(tmp_path / "bucket", runtime)


class TestGcsByObstore(StoreContract):
    """On a small server of our own, for want of a real one that speaks Google's XML API."""

    rounds = 20
    many = 2500
    stream = 21 * MIB
    listings_tell_etags = False

    @pytest.fixture
    async def store(self) -> AsyncIterator[ObjectStore]:
        async with gcs_xml("contract") as endpoint:
            options = {"endpoint": endpoint, "bearer_token": "anything", "allow_http": "true"}
            yield open_store("gs://contract/some/prefix", options, environment={})


class TestOpenedFiles(StoreContract):
    """As ``open_store`` hands it out. The races are run above, so a few rounds will do."""

    rounds = 5
    many = 1500
    keeps_attributes = False

    @pytest.fixture
    def store(self, tmp_path: Path) -> ObjectStore:
        return open_store((tmp_path / "bucket").as_uri())
