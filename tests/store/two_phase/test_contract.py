"""The contract of all stores, on a bucket without conditional writes made whole by two-phase CAS."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from slate_engine.errors import InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.store.open import open_store
from slate_engine.store.protocol import COPIED, CREATE, Conflict, ObjectStore, Update
from slate_engine.store.two_phase import TwoPhaseStore, open_transactions
from slate_engine.store.two_phase.inline import LIMIT
from tests.servers.versitygw import VersityGW
from tests.store.contract.suite import StoreContract
from tests.store.two_phase.doubles import Interleaved, LyingStore, MemoryTransactions


class TestImmutable(StoreContract):
    """As it is used: everything outside ``gc/`` is immutable. What updates such an object is refused instead."""

    keeps_attributes = False
    attributes = ((COPIED, "true"),)

    @pytest.fixture
    def store(self, runtime: SystemRuntime) -> ObjectStore:
        return TwoPhaseStore(Interleaved(LyingStore(runtime), 1), Interleaved(MemoryTransactions(), 2), runtime)

    async def test_updates_only_what_it_expects(self, store: ObjectStore) -> None:
        etag = await store.put("a", b"first")
        with pytest.raises(InvalidError, match="immutable"):
            await store.put("a", b"second", Update(etag))
        assert bytes((await store.get("a")).data) == b"first"

    test_updates_by_the_etag_of_a_head = test_updates_only_what_it_expects
    test_updates_nothing_that_is_gone = test_updates_only_what_it_expects

    async def test_large_writes_keep_their_condition(self, store: ObjectStore) -> None:
        await store.put("big", bytes(self.large), CREATE)
        with pytest.raises(Conflict):
            await store.put("big", bytes(self.large), CREATE)

    async def test_copies(self, store: ObjectStore) -> None:
        await store.put("from", b"first", CREATE)
        await store.put("deep/to", b"something else")
        await store.copy("from", "deep/to")
        assert bytes((await store.get("deep/to")).data) == b"first"
        with pytest.raises(Conflict):
            await store.put("deep/to", b"created", CREATE)
        await store.copy("from", "gc/to")
        await store.copy("gc/to", "back")
        assert bytes((await store.get("back")).data) == b"first"

    @pytest.mark.parametrize("key", ["with space/%41", "hash#tag/x#1a", "ümläut/日本語/🗿", "x" * 150])
    async def test_keys_with_odd_characters(self, store: ObjectStore, key: str) -> None:
        await store.put(key, b"odd", CREATE)
        with pytest.raises(Conflict):
            await store.put(key, b"again", CREATE)
        assert bytes((await store.get(key)).data) == b"odd"
        assert [meta.key async for page in store.list("") for meta in page] == [key]
        await store.delete([key])
        assert [meta.key async for page in store.list("") for meta in page] == []


class TestOnSqlite(TestImmutable):
    """The same with a real table behind it. The races are run in full elsewhere, so a few rounds will do."""

    rounds = 10
    many = 1500

    @pytest.fixture
    async def store(self, runtime: SystemRuntime, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        transactions = open_transactions(f"sqlite:///{tmp_path}/transactions.db", runtime)
        # Not all of gc/: the suite deletes a thousand objects there, and each would leave a record, synced to disk.
        mutable = re.compile(r"gc/\w+\.boundary|gc/to").fullmatch
        bucket = Interleaved(LyingStore(runtime), 1)
        store = TwoPhaseStore(bucket, transactions, runtime, mutable=lambda key: mutable(key) is not None)
        yield store
        await store.close()


@pytest.mark.servers
@pytest.mark.timeout(900)
class TestOnS3(TestImmutable):
    """As ``open_store`` puts it together with the option ``cas``, in front of a real server."""

    rounds = 20
    many = 1500

    @pytest.fixture
    async def store(self, s3_server: VersityGW, tmp_path: Path) -> AsyncIterator[ObjectStore]:
        options = {**s3_server.options(), "cas": f"sqlite:///{tmp_path}/transactions.db"}
        store = open_store(f"s3://contract/two phase/{tmp_path.name}", options)
        assert isinstance(store, TwoPhaseStore)
        yield store
        await store.close()


class TestMutable(StoreContract):
    """With every object mutable, so that all updates of the contract are tried. Such objects are small."""

    large = LIMIT
    stream = LIMIT
    keeps_attributes = False
    many = 1000

    @pytest.fixture
    def store(self, runtime: SystemRuntime) -> ObjectStore:
        bucket, table = Interleaved(LyingStore(runtime), 1), Interleaved(MemoryTransactions(), 2)
        return TwoPhaseStore(bucket, table, runtime, mutable=lambda key: True)

    async def test_ranges(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 4
        await store.put("gc/a", data)
        ranges = [(0, 10), (5, 5), (1000, 2000), (1024, 1030), (2000, 2001)]
        assert [bytes(part) for part in await store.get_ranges("gc/a", ranges)] == [data[slice(*one)] for one in ranges]
        with pytest.raises(InvalidError):
            await store.get_ranges("gc/a", [(5, 4)])

    @pytest.mark.parametrize("sizes", [[], [0], [0, 7, 0, 3], [LIMIT // 2, LIMIT // 2]])
    async def test_streams_of_all_sizes(self, store: ObjectStore, sizes: list[int]) -> None:
        await super().test_streams_of_all_sizes(store, sizes)

    async def test_refuses_what_a_record_cannot_hold(self, store: ObjectStore) -> None:
        with pytest.raises(InvalidError, match=str(LIMIT)):
            await store.put("a", bytes(LIMIT + 1), CREATE)
        assert [page async for page in store.list("")] == []
