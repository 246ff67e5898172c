"""The client of the admin API against a real collector, over TLS with the certificates that the operator makes."""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from slate_engine.api.db_builder import DbBuilder
from slate_engine.api.object_store import ObjectStore
from slate_engine.format.ids import Ulid
from slate_engine.runtime import SystemRuntime
from slate_engine.state.compactions import Compaction, CompactionStatus, TieredSpec, Worker
from slate_engine.state.stores import CompactionsStore
from slate_engine.store.open import open_store
from slate_operator.admin.client import Address, HttpAdmin, HttpDatabases, by_service
from slate_operator.admin.database import CompactionFacts, NotReached, Owner, Problem
from slate_operator.api.database import SlateDatabase
from slate_operator.build.certificates import Pair, authority, hosts_of, leaf
from slate_operator.build.naming import Family
from slate_operator.clock import SystemClock
from slate_operator.kube.cluster import PODS, SECRETS, Body, Key, Kind
from tests.server.processes import Service

UID = "11111111-1111-4111-8111-111111111111"
DATABASE = SlateDatabase.of(
    {
        "metadata": {"name": "orders", "namespace": "shop", "uid": UID},
        "spec": {"store": {"url": "s3://shop/orders"}},
    }
)
FAMILY = Family.of(DATABASE)
TOKEN = "a-secret-that-nobody-may-see"


@dataclass
class Shelf:
    """The one Secret and the pods that the client looks for."""

    token: str
    authority: bytes
    pods: list[Body] = field(default_factory=list)
    there: bool = True
    reads: int = 0

    async def get(self, kind: Kind, key: Key) -> Body | None:
        assert (kind, key) == (SECRETS, Key("shop", "orders-admin"))
        self.reads += 1
        data = {"token": self.token.encode(), "ca.crt": self.authority}
        return (
            {"data": {name: base64.b64encode(value).decode() for name, value in data.items()}} if self.there else None
        )

    async def list(self, kind: Kind, namespace: str, labels: dict[str, str]) -> list[Body]:
        assert (kind, namespace) == (PODS, "shop")
        return self.pods


@dataclass
class Door:
    """A running collector, and how it is opened."""

    service: Service
    signer: Pair
    tokens: Path
    certificate: Path
    store: str

    @property
    def address(self) -> Address:
        return Address("127.0.0.1", "orders-admin.shop.svc.cluster.local", self.service.http_port)


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    folder = tmp_path_factory.mktemp("door")
    now = SystemClock().now()
    signer = authority(FAMILY, now)
    certificate, key, tokens = folder / "tls.crt", folder / "tls.key", folder / "tokens"
    pair = leaf(signer, hosts_of(FAMILY, "cluster.local"), now)
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    tokens.write_text(TOKEN + "\n")
    settings = {
        "http.token_file": str(tokens),
        "http.tls.certificate": str(certificate),
        "http.tls.key": str(key),
        "log.level": "warning",
    }
    store = f"file://{folder}/store"
    (folder / "store").mkdir()
    service = Service("gc", store, "orders", folder / "log", settings).start()
    yield Door(service, signer, tokens, certificate, store)
    service.end()


@pytest.fixture
async def shelf(door: Door) -> Shelf:
    return Shelf(TOKEN, door.signer.certificate)


@pytest.fixture
async def databases(door: Door, shelf: Shelf) -> AsyncIterator[HttpDatabases]:
    made = HttpDatabases(shelf, lambda family: door.address, timeout=60)  # type: ignore[arg-type]
    yield made
    await made.close()


@pytest.fixture
async def admin(databases: HttpDatabases) -> HttpAdmin:
    """Once the collector answers."""
    found = databases.admin(DATABASE)
    for _ in range(600):
        try:
            await found.owner()
            break
        except NotReached:
            await asyncio.sleep(0.1)
    return found


async def written(door: Door) -> None:
    db = await DbBuilder("orders", ObjectStore.of(open_store(door.store), SystemRuntime())).build()
    await db.put(b"a", b"1")
    await db.flush()
    await db.shutdown()


async def claimed_compaction(door: Door) -> Ulid:
    """A job in the book, of a run that is gone by now."""
    runtime = SystemRuntime()
    id = Ulid.new(runtime)
    job = Compaction(id, TieredSpec((), (7,), 7), CompactionStatus.RUNNING, worker=Worker("spark", 1_700_000_000_999))
    await CompactionsStore.open(open_store(door.store), "orders", runtime).update(lambda old: old.with_job(job))
    return id


async def test_all_that_the_controllers_ask_for(door: Door, admin: HttpAdmin) -> None:
    with pytest.raises(Problem) as nothing:
        await admin.status()
    assert (nothing.value.status, nothing.value.kind) == (404, "no-database")
    ours, other = Owner(UID, "shop", "orders"), Owner(str(uuid.uuid4()), "else", "where")
    assert await admin.owner() is None
    await admin.claim(ours, "empty")
    await admin.claim(ours, "empty")
    assert await admin.owner() == ours
    with pytest.raises(Problem, match="belongs to shop/orders") as taken:
        await admin.claim(other, "empty")
    assert taken.value.kind == "owned-by-another"

    assert await admin.compactions() == ()
    await written(door)
    facts = await admin.status()
    assert (facts.path, facts.state, facts.parents) == ("orders", "alive", ())
    assert facts.size_bytes > 0

    id = str(uuid.uuid4())
    assert await admin.checkpoint(id) is None
    made = await admin.put_checkpoint(id, lifetime_s=3600, name="monday", source=None)
    assert await admin.put_checkpoint(id, lifetime_s=3600, name="monday", source=None) == made
    assert (made.id, made.name) == (id, "monday")
    assert made.expires_at_s == made.created_at_s + 3600
    assert (await admin.refresh_checkpoint(id, None)).expires_at_s is None
    assert [each.id for each in (await admin.status()).checkpoints] == [id]
    pinned = await admin.pinned_bytes()
    assert list(pinned) == [id]
    assert 0 < pinned[id] < 4096, "all that it alone needs is an old manifest"
    assert not await admin.is_destroying()
    await admin.delete_checkpoint(id)
    await admin.delete_checkpoint(id)

    planned = await claimed_compaction(door)
    assert await admin.compactions() == (
        CompactionFacts(str(planned), "running", 0, planned.ms // 1000, "spark", 1_700_000_000, "run 7 to run 7"),
    )

    work, operation = {"kind": "collect", "dry_run": True}, str(uuid.uuid4())
    assert await admin.operation(operation) is None
    found = await admin.put_operation(operation, work)
    while found.state == "running":
        await asyncio.sleep(0.05)
        found = await admin.put_operation(operation, work)
    assert found.state == "succeeded"
    with pytest.raises(Problem) as differs:
        await admin.put_operation(operation, {"kind": "undelete"})
    assert differs.value.kind == "operation-differs"

    await admin.release(ours)
    assert await admin.owner() is None


async def test_a_token_that_was_replaced_is_read_again(admin: HttpAdmin, shelf: Shelf) -> None:
    await admin.owner()
    reads = shelf.reads
    await admin.owner()
    assert shelf.reads == reads, "the Secret is read for every request"
    admin._databases._keys._known.clear()
    shelf.token = "an old one"
    with pytest.raises(Problem) as refused:
        await admin.owner()
    assert (refused.value.status, refused.value.kind) == (401, "unauthorized")
    shelf.token = TOKEN
    await admin.owner()


async def test_a_certificate_of_somebody_else_is_not_trusted_until_the_secret_says_so(
    door: Door, admin: HttpAdmin, shelf: Shelf
) -> None:
    admin._databases._keys._known.clear()
    shelf.authority = authority(FAMILY, SystemClock().now()).certificate
    await admin._databases._session.close()
    fresh = HttpDatabases(shelf, lambda family: door.address, timeout=60)  # type: ignore[arg-type]
    try:
        with pytest.raises(NotReached, match="did not sign"):
            await fresh.admin(DATABASE).owner()
        shelf.authority = door.signer.certificate
        await fresh.admin(DATABASE).owner()
    finally:
        await fresh.close()


async def test_the_name_in_the_certificate_matters(door: Door, admin: HttpAdmin, shelf: Shelf) -> None:
    elsewhere = Address("127.0.0.1", "payments-admin.shop.svc.cluster.local", door.service.http_port)
    wrong = HttpDatabases(shelf, lambda family: elsewhere, timeout=10)  # type: ignore[arg-type]
    try:
        with pytest.raises(NotReached, match="payments-admin"):
            await wrong.admin(DATABASE).owner()
    finally:
        await wrong.close()


async def test_who_does_not_answer_is_told_without_the_token(shelf: Shelf) -> None:
    nowhere = HttpDatabases(shelf, lambda family: Address("127.0.0.1", "x", 1), timeout=5)  # type: ignore[arg-type]
    try:
        with pytest.raises(NotReached, match=r"https://127\.0\.0\.1:1 does not answer") as silence:
            await nowhere.admin(DATABASE).status()
        assert TOKEN not in str(silence.value)
        shelf.there = False
        nowhere._keys._known.clear()
        with pytest.raises(NotReached, match="Secret shop/orders-admin"):
            await nowhere.admin(DATABASE).status()
        assert TOKEN not in repr(await _credentials(shelf, nowhere))
    finally:
        await nowhere.close()


async def test_a_flush_goes_to_a_writer_that_is_ready(admin: HttpAdmin, shelf: Shelf, databases: HttpDatabases) -> None:
    with pytest.raises(NotReached, match="no writer of shop/orders is ready"):
        await admin.flush(to_ssts=True)
    ready: dict[str, Any] = {"podIP": "10.1.2.3", "conditions": [{"type": "Ready", "status": "True"}]}
    leaving = {"metadata": {"name": "old", "deletionTimestamp": "now"}, "status": {**ready, "podIP": "10.9.9.9"}}
    shelf.pods = [leaving, {"metadata": {"name": "new"}, "status": ready}]
    found = await databases.writer_address(FAMILY)
    assert (found.host, found.port) == ("10.1.2.3", 8080)


def test_in_a_cluster_the_service_is_reached_by_its_whole_name() -> None:
    assert str(by_service("cluster.local")(FAMILY)) == "https://orders-admin.shop.svc.cluster.local:8080"


async def _credentials(shelf: Shelf, databases: HttpDatabases) -> object:
    shelf.there = True
    found = await databases._keys.of(FAMILY, anew=True)
    assert isinstance(found.trust, ssl.SSLContext)
    return found
