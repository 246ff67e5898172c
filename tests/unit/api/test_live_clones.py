"""Clones, and deleting databases, as both implementations have them; and what only ours has."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.usefixtures("no_linger")

UNKNOWN = "ffffffff-ffff-ffff-ffff-ffffffffffff"
SOME_ID = "01740ee5-6459-44af-9a45-85deb6e468e3"


def admin(kit: Any, store: Any, path: str) -> Any:
    return kit.lib.AdminBuilder(path, store).build()


def source(kit: Any, path: str, checkpoint: str | None = None, keys: Any = None) -> Any:
    return kit.lib.CloneSourceSpec(path=path, checkpoint=checkpoint, projection_range=keys)


async def clone(kit: Any, store: Any, path: str, *sources: Any, keys: Any = None) -> None:
    builder = admin(kit, store, path).create_clone_builder_from_source(sources[0])
    for each in sources[1:]:
        builder.with_source(each)
    builder.with_projection_range(keys)
    await builder.build()


async def fill(kit: Any, store: Any, path: str, **rows: bytes) -> None:
    """Closing brings all rows to SSTs, and says so of the whole log: of a database whose log has rows no part is cloned."""
    async with kit.db(store, path) as db:
        for key, value in rows.items():
            await db.put(key.encode(), value)
        await db.flush()


async def rows(kit: Any, store: Any, path: str) -> list[tuple[bytes, bytes]]:
    async with kit.reader(store, path) as reader:
        return await kit.rows(reader)


async def test_a_clone_goes_its_own_way(kit: Any) -> None:
    store = kit.memory()
    await fill(kit, store, "db", a=b"1", b=b"1")
    checkpoint = await admin(kit, store, "db").create_detached_checkpoint(
        kit.lib.CheckpointOptions(lifetime_ms=None, source=None, name=None)
    )
    await fill(kit, store, "db", b=b"2")
    await clone(kit, store, "then", source(kit, "db", checkpoint.id))
    await clone(kit, store, "now", source(kit, "db"))
    await fill(kit, store, "now", c=b"3")
    await clone(kit, store, "of it", source(kit, "now"))
    assert await rows(kit, store, "then") == [(b"a", b"1"), (b"b", b"1")]
    assert await rows(kit, store, "db") == [(b"a", b"1"), (b"b", b"2")]
    assert (
        await rows(kit, store, "now") == await rows(kit, store, "of it") == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    )


async def test_a_clone_that_is_asked_for_again(kit: Any) -> None:
    """The original gives any clone of the same database away. Ours knows whether it was made for this request."""
    store = kit.memory()
    await fill(kit, store, "db", a=b"1")
    checkpoint = await admin(kit, store, "db").create_detached_checkpoint(
        kit.lib.CheckpointOptions(lifetime_ms=None, source=None, name=None)
    )
    await clone(kit, store, "now", source(kit, "db"))
    await clone(kit, store, "then", source(kit, "db", checkpoint.id))
    await fill(kit, store, "db", a=b"2")
    await clone(kit, store, "then", source(kit, "db", checkpoint.id))
    if kit.is_ours:
        found, message, _ = await kit.failure(clone(kit, store, "now", source(kit, "db")))
        assert (found, "a finished clone of 'db' already" in message) == ("Data", True), message
    else:
        await clone(kit, store, "now", source(kit, "db"))
    for path in ("now", "then"):
        assert await rows(kit, store, path) == [(b"a", b"1")]


async def test_ours_knows_a_request_by_its_id(ours: Any) -> None:
    store = ours.memory()
    await fill(ours, store, "db", a=b"1")

    async def made(id: str) -> None:
        builder = admin(ours, store, "clone").create_clone_builder_from_source(source(ours, "db"))
        builder.with_id(id)
        await builder.build()

    await made(SOME_ID)
    await fill(ours, store, "db", a=b"2")
    await made(SOME_ID)
    assert (await ours.failure(made(UNKNOWN)))[0] == "Data"
    assert await rows(ours, store, "clone") == [(b"a", b"1")]
    with pytest.raises(ours.lib.Error.Invalid, match="is a UUID"):
        await made("no id")


async def test_ranges_and_unions(kit: Any) -> None:
    store = kit.memory()
    await fill(kit, store, "one", a=b"1", b=b"1", c=b"1")
    await fill(kit, store, "two", c=b"2", d=b"2")
    below_c = kit.between(None, b"c")
    await clone(kit, store, "both", source(kit, "one", keys=below_c), source(kit, "two"))
    assert [key for key, _ in await rows(kit, store, "both")] == [b"a", b"b", b"c", b"d"]
    await clone(kit, store, "part", source(kit, "one"), keys=kit.between(b"b", b"b", through=True))
    assert await rows(kit, store, "part") == [(b"b", b"1")]


async def test_the_builder(kit: Any) -> None:
    store, elsewhere = kit.memory(), kit.memory()
    await fill(kit, elsewhere, "db", a=b"1")
    builder = admin(kit, store, "nobody").create_clone_builder_from_source(source(kit, "db"))
    builder.with_object_store(elsewhere)
    builder.with_clone_path("clone")
    builder.with_seed(7)
    await builder.build()
    assert await rows(kit, elsewhere, "clone") == [(b"a", b"1")]
    assert (await kit.failure(builder.build()))[0] == "Invalid"
    with pytest.raises(kit.lib.Error.Invalid, match="consumed"):
        builder.with_source(source(kit, "db"))


async def test_a_log_of_its_own(kit: Any) -> None:
    store, log = kit.memory(), kit.memory()
    async with kit.db(store, "db", wal_object_store=log) as db:
        await db.put(b"a", b"1")
        await kit.flush_memtable(db)
    builder = kit.lib.AdminBuilder("clone", store)
    builder.with_wal_object_store(log)
    await builder.build().create_clone_builder_from_source(source(kit, "db")).build()
    async with kit.db(store, "clone", wal_object_store=log) as db:
        assert await db.get(b"a") == b"1"


async def test_what_is_refused(kit: Any) -> None:
    store = kit.memory()
    await fill(kit, store, "db", a=b"1")
    await fill(kit, store, "other", a=b"1")
    for kind, words, *sources in (
        ("Data", "failed to find latest transactional object", source(kit, "nowhere")),
        ("Data", f"checkpoint missing. checkpoint_id=`{UNKNOWN}`", source(kit, "db", UNKNOWN)),
        ("Invalid", "", source(kit, "db"), source(kit, "db")),
        ("Invalid", "overlap", source(kit, "db"), source(kit, "other")),
        ("Invalid", "", source(kit, "clone")),
    ):
        found, message, _ = await kit.failure(clone(kit, store, "clone", *sources))
        assert (found, words in message) == (kind, True), message
    found, message, _ = await kit.failure(clone(kit, store, "other", source(kit, "db")))
    assert found == "Data"
    with pytest.raises(kit.lib.Error.Invalid, match="checkpoint_id"):
        await clone(kit, store, "clone", source(kit, "db", "no id"))
    assert await admin(kit, store, "clone").read_manifest(None) is None


async def test_delete_db(kit: Any) -> None:
    store = kit.memory()
    await fill(kit, store, "db", a=b"1")
    await clone(kit, store, "clone", source(kit, "db"))
    assert len(await admin(kit, store, "db").list_checkpoints(None)) >= 1
    planned = await admin(kit, store, "clone").delete_db(False)
    assert set(planned) <= set(await admin(kit, store, "clone").delete_db(True))
    assert await admin(kit, store, "clone").read_manifest(None) is None
    finals = [each for each in await admin(kit, store, "db").list_checkpoints(None) if each.expire_time_secs is None]
    assert finals == []  # nobody needs it any more
    assert await admin(kit, store, "clone").delete_db(False) == []
    await admin(kit, store, "clone").delete_db(True)
    assert await rows(kit, store, "db") == [(b"a", b"1")]


async def test_ours_is_not_deleted_while_somebody_needs_it(ours: Any) -> None:
    store = ours.memory()
    await fill(ours, store, "db", a=b"1")
    await clone(ours, store, "clone", source(ours, "db"))
    found, message, _ = await ours.failure(admin(ours, store, "db").delete_db(True))
    assert found == "Invalid"
    assert "clone clone" in message
    assert await rows(ours, store, "clone") == [(b"a", b"1")]


async def test_ours_is_destroyed_brought_back_restored_and_copied(ours: Any) -> None:
    store, elsewhere = ours.memory(), ours.memory()
    await fill(ours, store, "db", a=b"1")
    db = admin(ours, store, "db")
    options = ours.lib.CheckpointOptions(lifetime_ms=None, source=None, name=None)
    then = await db.create_detached_checkpoint(options)
    await fill(ours, store, "db", a=b"2")
    await db.destroy(soft=True)
    found, message, _ = await ours.failure(rows(ours, store, "db"))
    assert (found, "was destroyed" in message) == ("Invalid", True)
    await db.undelete()
    assert await rows(ours, store, "db") == [(b"a", b"2")]
    kept = await db.restore(then.id)
    assert await rows(ours, store, "db") == [(b"a", b"1")]
    await db.copy_to("copy")
    await db.copy_to("copy", elsewhere, kept.id)
    for checkpoint in await db.list_checkpoints(None):
        await db.delete_checkpoint(checkpoint.id)
    await db.destroy(soft=False)
    assert await rows(ours, store, "copy") == [(b"a", b"1")]
    assert await rows(ours, elsewhere, "copy") == [(b"a", b"2")]
    for action in (db.destroy(soft=True), db.undelete(), db.restore(then.id), db.copy_to("again")):
        assert (await ours.failure(action))[0] == "Data"
