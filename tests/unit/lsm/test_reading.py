"""Databases that somebody else writes: which state is read, and what is said when there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from slate_engine.errors import CorruptData, DataError, InvalidError, UnsupportedFormat
from slate_engine.format.key_range import KeyRange
from slate_engine.lsm import reading
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.store.memory import MemoryStore
from slate_engine.store.numbered import BoundaryAhead
from slate_engine.store.protocol import NotFound
from tests.interop import ours
from tests.interop.author import Author
from tests.unit.lsm.reads import RUNTIME, new_database, put


def database(author: Author, path: str = "db") -> DatabaseFiles:
    return DatabaseFiles(author.store, path, RUNTIME)


async def keys(author: Author, path: str = "db") -> list[bytes]:
    return [row.key for row in await ours.scan(await database(author, path).latest())]


async def some_database() -> Author:
    """One row in an SST, one in the WAL, and a checkpoint before a third."""
    author = await new_database()
    await author.commit([put(b"a")])
    await author.flush()
    await author.commit([put(b"b")])
    await author.checkpoint("early")
    await author.commit([put(b"c")])
    await author.flush_wal()
    return author


async def test_the_newest_state_and_a_checkpoint() -> None:
    author = await some_database()
    files = database(author)
    assert await keys(author) == [b"a", b"b", b"c"]
    (checkpoint,) = author.manifest.checkpoints
    for wanted in ("early", checkpoint.id, str(checkpoint.id)):
        assert [row.key for row in await ours.scan(await files.checkpoint(wanted))] == [b"a", b"b"]


async def test_a_checkpoint_stays_while_the_database_goes_on() -> None:
    author = await some_database()
    await author.flush()
    await author.compact(0, 8, 0, (), split=False, drop=True)
    await author.collect()
    await ours.check(await database(author).checkpoint("early"), author.checkpoints["early"].rows())


async def test_a_snapshot_stays_while_the_database_goes_on() -> None:
    author = await some_database()
    before = await database(author).latest()
    expected = author.model.rows()
    await author.commit([put(b"a", b"new"), put(b"d")])
    await author.flush()
    await author.compact(0, 8, 0, (), split=False, drop=True)
    await ours.check(before, expected)
    assert await keys(author) == [b"a", b"b", b"c", b"d"]


async def test_one_reader_sees_the_database_grow() -> None:
    author = await some_database()
    files = database(author)
    assert len(await ours.scan(await files.latest())) == 3
    await author.commit([put(b"d")])
    await author.flush()
    assert len(await ours.scan(await files.latest())) == 4


async def test_rows_above_the_last_sequence_number_are_not_seen_yet() -> None:
    """An SST may hold rows that nobody has acknowledged: the manifest says how far it counts."""
    author = await new_database()
    for n in range(5):
        await author.commit([put(b"k", b"%d" % n), put(b"key %d" % n)])
    await author.flush()
    await author.publish(replace(author.manifest, last_l0_seq=3))
    snapshot = await database(author).latest()
    assert [(row.key, row.value) for row in await ours.scan(snapshot)] == [
        (b"k", b"2"),
        *((b"key %d" % n, b"v") for n in range(3)),
    ]
    assert await ours.get(snapshot, b"key 3") is None


@pytest.mark.parametrize("path", ["db", "/db", "db/", "/db/"])
async def test_slashes_around_a_path_do_not_matter(path: str) -> None:
    assert await keys(await some_database(), path) == [b"a", b"b", b"c"]


async def test_a_database_at_the_root_of_its_store() -> None:
    author = await Author(MemoryStore(RUNTIME), "").create()
    await author.commit([put(b"a")])
    await author.flush()
    await author.commit([put(b"b")])
    await author.flush_wal()
    assert await keys(author, "") == [b"a", b"b"]


async def test_there_is_no_database() -> None:
    store = MemoryStore(RUNTIME, name="somewhere")
    with pytest.raises(InvalidError, match=r"no database at 'db'.*somewhere.*db/manifest"):
        await DatabaseFiles(store, "db", RUNTIME).latest()


async def test_an_unfinished_clone_is_refused() -> None:
    author = await some_database()
    await author.publish(replace(author.manifest, initialized=False))
    with pytest.raises(InvalidError, match="not initialized"):
        await database(author).latest()


async def test_a_checkpoint_that_is_not_there() -> None:
    files = database(await some_database())
    with pytest.raises(InvalidError, match=r"no checkpoint 'late'.*\(early\)"):
        await files.checkpoint("late")
    stranger = UUID(int=7)
    with pytest.raises(InvalidError, match=f"no checkpoint '{stranger}'"):
        await files.checkpoint(stranger)
    with pytest.raises(InvalidError, match="it has: none"):
        await database(await new_database()).checkpoint("early")


async def test_a_name_that_two_checkpoints_have() -> None:
    author = await some_database()
    second = await author.checkpoint("early")
    files = database(author)
    with pytest.raises(InvalidError, match=f"2 checkpoints 'early'.*{second.id}"):
        await files.checkpoint("early")
    assert len(await ours.scan(await files.checkpoint(second.id))) == 3, "its id still tells it apart"


async def test_a_checkpoint_without_its_manifest() -> None:
    author = await some_database()
    (checkpoint,) = author.manifest.checkpoints
    await author.commit([put(b"d")])
    await author.flush()
    await author.store.delete([f"db/manifest/{checkpoint.manifest_id:020d}.manifest"])
    with pytest.raises(InvalidError, match=f"manifest {checkpoint.manifest_id}, which does not exist"):
        await database(author).checkpoint("early")


async def test_a_checkpoint_below_the_boundary_is_read() -> None:
    """Garbage collection gives up old manifests all around it, and keeps this one."""
    author = await some_database()
    (checkpoint,) = author.manifest.checkpoints
    await author.flush()
    await author.reopen()
    await author.collect()
    assert int(bytes((await author.store.get("db/gc/manifest.boundary")).data)) > checkpoint.manifest_id
    assert len(await ours.scan(await database(author).checkpoint("early"))) == 2


async def test_a_boundary_that_has_overtaken_the_manifests() -> None:
    author = await some_database()
    await author.store.put("db/gc/manifest.boundary", b"%d" % author.manifest_id)
    files = database(author)
    files.manifests._objects._patience = 0.05
    with pytest.raises(BoundaryAhead, match=str(author.manifest_id)):
        await files.latest()


async def test_a_broken_manifest_is_named() -> None:
    author = await some_database()
    newest = f"db/manifest/{author.manifest_id:020d}.manifest"
    data = bytes((await author.store.get(newest)).data)
    for broken, error in ((data[:40], CorruptData), (b"\0", CorruptData), (b"\0\x03" + data[2:], UnsupportedFormat)):
        await author.store.put(newest, broken)
        with pytest.raises(error, match=newest):
            await database(author).latest()


async def test_a_clone_reads_its_parents_ssts_where_they_lie() -> None:
    author = await some_database()
    child = await author.clone("a/child")
    await child.reopen()
    await child.commit([put(b"d")])
    await child.flush()
    grandchild = await child.clone("grandchild", KeyRange.half_open(None, b"d"))
    await author.commit([put(b"only the parent's")])
    await author.flush()
    assert await keys(author, "a/child") == [b"a", b"b", b"c", b"d"]
    assert await keys(author, "grandchild") == [b"a", b"b", b"c"]
    assert {external.path for external in grandchild.manifest.external_dbs} == {"db", "a/child"}
    # The child has one SST of its own, the one that it flushed; the grandchild has none.
    listed = [meta.key async for page in author.store.list("") for meta in page if "/compacted/" in meta.key]
    assert sum(key.startswith("a/child/") for key in listed) == 1
    assert not any(key.startswith("grandchild/") for key in listed)


async def test_a_clone_whose_parent_is_gone_says_what_is_missing() -> None:
    author = await some_database()
    await author.clone("clone")
    lost = author.paths.compacted(author.manifest.root.l0[0].sst.id)
    await author.store.delete([lost])
    with pytest.raises(NotFound, match=lost):
        await keys(author, "clone")


async def test_a_collected_part_of_the_log_is_not_taken_for_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was flushed and collected after we had looked at the manifest, and before we listed the log."""
    author = await some_database()
    store, frontier, looks = author.store, reading.wal_frontier, []

    async def late(*where: Any) -> int:
        looks.append(where)
        if len(looks) == 1:
            await author.flush()
            await store.delete([meta.key async for page in store.list("db/wal/") for meta in page])
        return await frontier(*where)

    monkeypatch.setattr(reading, "wal_frontier", late)
    assert await keys(author) == [b"a", b"b", b"c"]
    assert len(looks) == 2


async def test_a_lost_part_of_the_log_is_not_taken_for_its_end() -> None:
    author = await some_database()
    (checkpoint,) = author.manifest.checkpoints
    kept = await database(author).manifests.read(checkpoint.manifest_id)
    await author.store.delete([database(author).paths.wal(kept.wal_id_last_seen)])
    with pytest.raises(DataError, match=f"wal truncated at wal file {kept.wal_id_last_seen}"):
        await database(author).checkpoint("early")
