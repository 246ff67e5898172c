"""The contract on real servers, through every client that speaks to them."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator

import pytest

from slate_engine.store.open import open_store
from slate_engine.store.protocol import ObjectStore
from tests.servers.azurite import Azurite
from tests.servers.fake_gcs import FakeGcs
from tests.servers.versitygw import VersityGW
from tests.store.contract.suite import MIB, StoreContract

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900)]
_prefixes = (f"prefix {number}/db" for number in itertools.count())


class TestS3ByObstore(StoreContract):
    @pytest.fixture
    async def store(self, s3_server: VersityGW) -> AsyncIterator[ObjectStore]:
        store = open_store(f"s3://contract/{next(_prefixes)}", s3_server.options())
        yield store
        await store.close()


class TestS3ByS3fs(StoreContract):
    # From 100 MiB on, s3fs's own pipe_file drops the condition without a word.
    large = 101 * MIB

    @pytest.fixture
    async def store(self, s3_server: VersityGW) -> AsyncIterator[ObjectStore]:
        store = open_store(f"s3://contract/{next(_prefixes)}", {**s3_server.options(), "client": "fsspec"})
        yield store
        await store.close()


class TestAzureByObstore(StoreContract):
    @pytest.fixture
    async def store(self, azure_server: Azurite) -> AsyncIterator[ObjectStore]:
        store = open_store(f"az://contract/{next(_prefixes)}", azure_server.options())
        yield store
        await store.close()


class TestAzureByAdlfs(StoreContract):
    # From 64 MiB on, the SDK would cut a blob into blocks.
    large = 65 * MIB

    @pytest.fixture
    async def store(self, azure_server: Azurite) -> AsyncIterator[ObjectStore]:
        store = open_store(f"az://contract/{next(_prefixes)}", {**azure_server.options(), "client": "fsspec"})
        yield store
        await store.close()


class TestGcsByGcsfs(StoreContract):
    @pytest.fixture
    async def store(self, gcs_server: FakeGcs) -> AsyncIterator[ObjectStore]:
        store = open_store(f"gs://contract/{next(_prefixes)}", {**gcs_server.options(), "client": "fsspec"})
        yield store
        await store.close()
