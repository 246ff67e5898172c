"""Whole databases on a real S3 server, whose copies, conditional writes and batched deletions are not ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from slate_engine.admin.checkpoints import create_checkpoint, delete_checkpoint, list_checkpoints
from slate_engine.admin.clone_request import CloneSource
from slate_engine.admin.cloning import create_clone
from slate_engine.admin.copying import copy_database
from slate_engine.admin.destroying import destroy_hard, destroy_softly, undelete
from slate_engine.admin.restoring import restore
from slate_engine.runtime import SystemRuntime
from slate_engine.state.destroy import InvalidDeletion
from slate_engine.state.tombstone import Destroyed
from slate_engine.store.open import open_store
from slate_engine.store.protocol import ObjectStore
from tests.servers import versitygw
from tests.unit.admin.workshop import Database, names

pytestmark = [pytest.mark.servers, pytest.mark.timeout(900), pytest.mark.usefixtures("no_linger")]
RUNTIME = SystemRuntime()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[versitygw.VersityGW]:
    versitygw.program()
    with versitygw.VersityGW(tmp_path_factory.mktemp("servers") / "s3") as running:
        running.make_bucket("admin")
        yield running


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
async def store(server: versitygw.VersityGW, registry: CollectorRegistry, tmp_path: Path) -> AsyncIterator[ObjectStore]:
    place = f"s3://admin/{tmp_path.name}"
    opened = open_store(place, server.options(), runtime=RUNTIME, registry=registry)
    yield opened
    await opened.close()


async def parent(store: ObjectStore) -> Database:
    db = await Database(store, RUNTIME, "parent").make()
    await db.flush({b"a": b"1"})
    await db.log(1, {b"b": b"2"})
    return db


ROWS = {b"a": b"1", b"b": b"2"}


def sent(registry: CollectorRegistry, request: str) -> float:
    """How many requests of a kind the server got."""
    samples = (sample for metric in registry.collect() for sample in metric.samples)
    return sum(
        sample.value
        for sample in samples
        if sample.name == "slate_store_requests_total" and sample.labels.get("request") == request
    )


async def test_the_server_copies(store: ObjectStore, registry: CollectorRegistry) -> None:
    db = await parent(store)
    before = sent(registry, "copy")
    await copy_database(db.files, Database(store, RUNTIME, "copy").files)
    assert sent(registry, "copy") - before == 2
    await destroy_hard(db.files)
    assert await Database(store, RUNTIME, "copy").values() == ROWS


async def test_a_life(store: ObjectStore) -> None:
    db = await parent(store)
    clone = Database(store, RUNTIME, "clone")
    await create_clone(clone.files, [CloneSource("parent")])
    assert await clone.values() == ROWS
    then = await create_checkpoint(clone.files)
    clone.seq = 100
    await clone.flush({b"c": b"3"})
    done = await restore(clone.files, then.id)
    assert await clone.values() == ROWS
    with pytest.raises(InvalidDeletion):
        await destroy_hard(db.files)
    await destroy_softly(clone.files)
    with pytest.raises(Destroyed):
        await clone.values()
    await undelete(clone.files)
    assert await clone.values() == ROWS
    for id in (then.id, done.kept):
        await delete_checkpoint(clone.files, id)
    await destroy_hard(clone.files)
    assert await list_checkpoints(db.files) == []
    await destroy_hard(db.files)
    assert await names(store, "") == []


async def test_two_hundred_checkpoints_at_once(store: ObjectStore) -> None:
    db = await parent(store)
    made = await asyncio.gather(*(create_checkpoint(db.files) for _ in range(200)))
    assert {each.id for each in made} == {each.id for each in await list_checkpoints(db.files)}
