"""Parquet tables in stores, step by step as Spark's driver and tasks would: credentials, files, commits, and reads."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import BinaryType, StringType, StructField, StructType

from slate_engine.errors import DataError, InvalidError
from slate_engine.runtime import SystemRuntime
from slate_engine.spark.options import MIB, Location
from slate_engine.spark.parquet.commit import Mode, Staged, abandon, check_target, commit
from slate_engine.spark.parquet.encoding import Encoder
from slate_engine.spark.parquet.folder import Folder, is_folder, visible
from slate_engine.spark.parquet.layout import Layout
from slate_engine.spark.parquet.reading import FolderReader, Share, Table, _planned
from slate_engine.spark.parquet.writing import stage
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import ObjectStore, StoreUnavailable

RUNTIME = SystemRuntime()
SCHEMA = StructType([StructField("key", BinaryType()), StructField("value", StringType())])
EMPTY = bytes(Encoder(iter(()), SCHEMA, Layout()).empty())


def batches(keys: Sequence[int], size: int = 100) -> Iterator[pa.RecordBatch]:
    for first in range(0, len(keys), size):
        some = keys[first : first + size]
        yield pa.record_batch(
            {"key": [b"%06d" % key for key in some], "value": [None if k % 5 == 0 else f"é{k:06d}" * 5 for k in some]}
        )


async def staged(store: ObjectStore, job: str, partition: int, keys: Sequence[int]) -> tuple[Staged, ...]:
    return await stage(store, RUNTIME, Encoder(batches(keys), SCHEMA, Layout()), job, partition)


async def keys_of(store: ObjectStore) -> list[int]:
    """What a reader finds."""
    found: list[int] = []
    async for meta in visible(store):
        table = pq.read_table(io.BytesIO(bytes((await store.get(meta.key)).data)))
        found += [int(key) for key in table["key"].to_pylist()]
    return sorted(found)


async def names(store: ObjectStore) -> list[str]:
    return [meta.key async for page in store.list("") for meta in page]


# --- where a table is -------------------------------------------------------------------------------------------------


def test_which_places_are_ours() -> None:
    for place in (
        "s3://b/t",
        "gs://b",
        "gcs://b",
        "az://c/t",
        "abfss://c@a.dfs.core.windows.net/t",
        "file:///t",
        "S3://b",
    ):
        assert is_folder(place)
    for place in ("/t", "t", "s3a://b/t", "hdfs://h/t", "abfs://c/t", "memory:///t", "catalog.schema.table"):
        assert not is_folder(place)


def test_options_are_those_of_the_database_where_they_fit() -> None:
    database = Location(
        "s3://bucket", "db", store_options={"region": "eu", "cas": "sqlite:///x"}, defaults={"endpoint": "e"}
    )
    assert Folder.of("s3://lake/t", {}, database).options == {"region": "eu", "endpoint": "e"}
    assert Folder.of("s3://lake/t", {"region": "us"}, database).options == {"region": "us"}
    assert Folder.of("file:///t", {}, database).options == {}
    assert "eu" not in repr(Folder.of("s3://lake/t", {}, database))


def test_credentials_of_the_table_come_before_all_others() -> None:
    """All of them together: a token of the database's identity does not belong to the key of the table's."""
    source = {"AWS_ACCESS_KEY_ID": "theirs", "AWS_SECRET_ACCESS_KEY": "theirs", "AWS_SESSION_TOKEN": "theirs"}
    sink = {
        "SLATE_SINK_AWS_ACCESS_KEY_ID": "ours",
        "SLATE_SINK_AWS_SECRET_ACCESS_KEY": "hush",
        "SLATE_SINK_AWS_REGION": "eu",
    }
    keys = {"access_key_id": "ours", "secret_access_key": "hush"}
    assert Folder("s3://b")._resolved({**source, **sink}) == {**keys, "region": "eu"}
    given = Folder("s3://b", {"access_key_id": "database", "session_token": "database", "region": "us"})
    assert given._resolved(sink) == {**keys, "region": "us"}
    assert Folder("s3://b", {"AWS_ACCESS_KEY_ID": "given"})._resolved(source) == {"access_key_id": "given"}


# --- files ------------------------------------------------------------------------------------------------------------


def test_what_a_table_can_be_told() -> None:
    assert Layout.of({"Compression": "ZSTD", "partBytes": "1m"}) == Layout("zstd", MIB, MIB)
    assert Layout.of({"compression": "uncompressed"}).compression == "none"
    for wrong, message in (
        ({"compression": "zip"}, "must be one of none"),
        ({"mergeSchema": "true"}, "has no option 'mergeSchema'"),
        ({"partBytes": "5g"}, "at most 4g"),
    ):
        with pytest.raises(InvalidError, match=message):
            Layout.of(wrong)


def test_files_roll_over_and_little_is_held() -> None:
    taken = 0

    def counted() -> Iterator[pa.RecordBatch]:
        nonlocal taken
        for batch in batches(range(20_000)):
            taken += batch.nbytes
            yield batch

    encoder = Encoder(counted(), SCHEMA, Layout("none", 100_000, 20_000))
    held, given = 0, 0
    made: list[bytes] = []
    while encoder.begin():
        whole = b""
        while (chunk := encoder.chunk()) is not None:
            whole += bytes(chunk)
            given += len(chunk)
            held = max(held, taken - given)
        made.append(whole)
    assert len(made) > 5
    assert held < 60_000, "most was handed on before the rest was taken"
    assert all(len(each) < 150_000 for each in made)
    groups = [pq.read_metadata(io.BytesIO(each)) for each in made]
    assert all(each.num_row_groups > 2 for each in groups[:-1])
    assert sum(each.num_rows for each in groups) == encoder.rows == 20_000


async def test_a_file_that_breaks_off_is_never_there() -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(range(1000))
        raise OSError("the executor lost its input")

    store = MemoryStore(RUNTIME)
    with pytest.raises(OSError, match="lost its input"):
        await stage(store, RUNTIME, Encoder(broken(), SCHEMA, Layout("none", MIB, 1000)), "job", 0)
    assert await names(store) == []


# --- commits ----------------------------------------------------------------------------------------------------------


async def test_only_attempts_that_count_are_seen_and_nothing_else_stays() -> None:
    store = MemoryStore(RUNTIME)
    first = await staged(store, "job", 0, range(50))
    await staged(store, "job", 0, range(40, 60))  # the same task, run twice; what the other one saw does not matter
    second = await staged(store, "job", 1, range(50, 80))
    assert await keys_of(store) == []
    assert await commit(store, Mode.NEW, "job", [*first, *second], EMPTY) == 2
    assert await keys_of(store) == list(range(80))
    assert await names(store) == ["_SUCCESS", "part-00000-job.parquet", "part-00001-job.parquet"]
    # A straggler that goes on for longer than the job is not seen either.
    await staged(store, "job", 1, range(50, 80))
    assert await keys_of(store) == list(range(80))


async def test_to_add_to_replace_and_to_refuse() -> None:
    store = MemoryStore(RUNTIME)
    for job, mode, keys in (("a", Mode.NEW, [1]), ("b", Mode.APPEND, [2])):
        await commit(store, mode, job, await staged(store, job, 0, keys), EMPTY)
    assert await keys_of(store) == [1, 2]
    with pytest.raises(InvalidError, match=r"something at .* already, such as part-00000-a.parquet"):
        await check_target(store, Mode.NEW, "x")
    await commit(store, Mode.OVERWRITE, "c", await staged(store, "c", 0, [3]), EMPTY)
    assert await names(store) == ["_SUCCESS", "_slatekeeper/c/replacing", "part-00000-c.parquet"]
    await commit(store, Mode.OVERWRITE, "d", await staged(store, "d", 0, [4]), EMPTY)
    assert await names(store) == ["_SUCCESS", "_slatekeeper/d/replacing", "part-00000-d.parquet"], "no marker for ever"
    await store.put("db/manifest/00000000000000000001.manifest", b"")
    with pytest.raises(InvalidError, match="no part of a Parquet table"):
        await check_target(store, Mode.OVERWRITE, "x")
    await check_target(store, Mode.APPEND, "x")


async def test_a_table_without_rows_has_columns() -> None:
    store = MemoryStore(RUNTIME)
    assert await commit(store, Mode.NEW, "a", [], EMPTY) == 1
    assert await keys_of(store) == []
    assert pq.read_schema(io.BytesIO(bytes((await store.get("part-00000-a.parquet")).data))).names == ["key", "value"]
    assert await commit(store, Mode.APPEND, "b", [], EMPTY) == 0


class Breaking(MemoryStore):
    """Refuses one call, and, if ``after``, only when it was carried out."""

    def __init__(self, call: str, key: str, after: bool = False) -> None:
        super().__init__(RUNTIME)
        self._broken = call, key
        self._after = after

    async def put(self, key: str, *args: Any, **more: Any) -> str:
        await self._refuse("put", key, super().put(key, *args, **more))
        return ""

    async def copy(self, source: str, destination: str) -> None:
        await self._refuse("copy", destination, super().copy(source, destination))

    async def delete(self, keys: Any) -> None:
        keys = list(keys)
        await self._refuse("delete", keys[0] if keys else "", super().delete(keys))

    async def _refuse(self, call: str, key: str, work: Any) -> None:
        hit = (call, key) == self._broken
        if not hit or self._after:
            await work
        else:
            work.close()
        if hit:
            raise StoreUnavailable("no")


@pytest.mark.parametrize(("call", "key"), [("copy", "part-00001-new.parquet"), ("put", "_SUCCESS")])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("mode", [Mode.NEW, Mode.APPEND])
async def test_a_commit_that_fails_leaves_what_was_there(call: str, key: str, after: bool, mode: Mode) -> None:
    store = Breaking(call, key, after)
    if mode is Mode.APPEND:
        await MemoryStore.put(store, "part-00000-old.parquet", EMPTY)
    before = await names(store)
    parts = [*await staged(store, "new", 0, [1]), *await staged(store, "new", 1, [2])]
    with pytest.raises((StoreUnavailable, ExceptionGroup)):
        await commit(store, mode, "new", parts, EMPTY)
    await abandon(store, "new")
    assert [name for name in await names(store) if name != "_SUCCESS" or mode is Mode.NEW] == before


@pytest.mark.parametrize(
    ("call", "key", "expected"),
    [
        ("copy", "part-00000-new.parquet", [1]),
        ("put", "_slatekeeper/new/replacing", [1]),
        ("delete", "_SUCCESS", [1, 2]),
        ("put", "_SUCCESS", [2]),
    ],
)
async def test_a_replacement_that_fails_never_loses_both(call: str, key: str, expected: list[int]) -> None:
    store = Breaking(call, key)
    (old,) = await staged(store, "old", 0, [1])
    await MemoryStore.copy(store, old.key, "part-00000-old.parquet")
    parts = await staged(store, "new", 0, [2])
    with pytest.raises((StoreUnavailable, ExceptionGroup)):
        await commit(store, Mode.OVERWRITE, "new", parts, EMPTY)
    await abandon(store, "new")
    assert await keys_of(store) == expected


async def test_a_table_that_was_replaced_stays_when_its_write_is_given_up() -> None:
    """Spark gives up a write that is complete if it does not hear of that. So may a second try of a job that was done."""
    store = MemoryStore(RUNTIME)
    await commit(store, Mode.NEW, "old", await staged(store, "old", 0, [1]), EMPTY)
    await commit(store, Mode.OVERWRITE, "new", await staged(store, "new", 0, [2]), EMPTY)
    await abandon(store, "new")
    assert await keys_of(store) == [2]
    await commit(store, Mode.APPEND, "more", await staged(store, "more", 0, [3]), EMPTY)
    for _ in range(2):
        await staged(store, "new", 0, [2])
        await abandon(store, "new")
        assert await keys_of(store) == [2, 3]
    assert [name for name in await names(store) if name.startswith("_slatekeeper")] == ["_slatekeeper/new/replacing"]


@pytest.mark.parametrize("mode", [Mode.NEW, Mode.APPEND, Mode.OVERWRITE])
async def test_what_took_no_place_of_another_is_undone_when_its_write_is_given_up(mode: Mode) -> None:
    """Whoever is told that it failed adds the rows again: they must not be there already."""
    store = MemoryStore(RUNTIME)
    if mode is Mode.APPEND:
        await commit(store, Mode.NEW, "old", await staged(store, "old", 0, [1]), EMPTY)
    before = await names(store)
    await commit(store, mode, "new", await staged(store, "new", 0, [2]), EMPTY)
    await abandon(store, "new")
    assert await names(store) == before


@pytest.mark.parametrize("mode", [Mode.NEW, Mode.APPEND, Mode.OVERWRITE])
async def test_a_job_that_is_tried_again_replaces_what_it_left(mode: Mode) -> None:
    """A driver that died while it copied has left parts; the next one has the same rows, cut differently."""
    store = MemoryStore(RUNTIME)
    if mode is not Mode.NEW:
        await commit(store, Mode.NEW, "before", await staged(store, "before", 0, [100]), EMPTY)
    for part, keys in enumerate((range(10), range(10, 20), range(20, 30))):
        (one,) = await staged(store, "job", part, keys)
        await store.copy(one.key, f"part-{part:05d}-job.parquet")
    await check_target(store, mode, "job")
    again = [*await staged(store, "job", 0, range(15)), *await staged(store, "job", 1, range(15, 30))]
    await commit(store, mode, "job", again, EMPTY)
    assert sorted(await keys_of(store)) == [*range(30), *([100] if mode is Mode.APPEND else [])]


async def test_what_cannot_be_cleared_away_does_not_undo_a_commit() -> None:
    store = MemoryStore(RUNTIME)
    (part,) = await staged(store, "job", 0, [1])
    broken = Breaking("delete", part.key)
    await MemoryStore.put(broken, part.key, (await store.get(part.key)).data)
    await commit(broken, Mode.NEW, "job", [part], EMPTY)
    assert await keys_of(broken) == [1]


# --- reads ------------------------------------------------------------------------------------------------------------


def read(table: Table) -> list[dict[str, Any]]:
    reader = FolderReader(table)
    return [row for share in reader.partitions() for batch in reader.read(share) for row in batch.to_pylist()]


def test_rows_by_row_groups_and_only_the_columns_that_are_wanted(tmp_path: Path) -> None:
    rows = {"a": list(range(5000)), "key": [b"%05d" % i for i in range(5000)], "s": [{"x": i} for i in range(5000)]}
    pq.write_table(pa.table(rows), tmp_path / "one.parquet", row_group_size=1000)
    pq.write_table(pa.table({**rows, "key": pa.array(rows["key"]).dictionary_encode()}), tmp_path / "two.parquet")
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / ".one.parquet.crc").write_bytes(b"x")
    table = asyncio.run(_planned(Folder(tmp_path.as_uri()), ("key", "s"), 1))
    assert [(share.key, share.first, share.last) for share in table.shares] == [
        *(("one.parquet", i, i + 1) for i in range(5)),
        ("two.parquet", 0, 1),
    ]
    expected = [{"key": key, "s": s} for key, s in zip(rows["key"], rows["s"], strict=True)]
    assert read(table) == expected * 2
    whole = asyncio.run(_planned(Folder(tmp_path.as_uri()), ("a",), 128 * MIB))
    assert len(whole.shares) == 2
    assert [row["a"] for row in read(whole)] == rows["a"] * 2


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    folder = Folder(tmp_path.as_uri())

    def planned(*columns: str) -> Table:
        return asyncio.run(_planned(folder, columns, MIB))

    with pytest.raises(InvalidError, match="there is no table at"):
        planned("key")
    pq.write_table(pa.table({"key": [b"a"], "value": ["x"]}), tmp_path / "a.parquet")
    with pytest.raises(InvalidError, match=r"no column 'id' in a.parquet; it has key, value"):
        planned("id")
    pq.write_table(pa.table({"key": ["a"], "value": ["x"]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidError, match=r"b.parquet has other types than a.parquet"):
        planned("key")
    # A column that one file lacks must not be taken for nulls, which delete.
    pq.write_table(pa.table({"key": [b"a"]}), tmp_path / "b.parquet")
    with pytest.raises(InvalidError, match=r"no column 'value' in b.parquet"):
        planned("key", "value")
    whole = (tmp_path / "a.parquet").read_bytes()
    for wrong in (b"PAR1", b"something else altogether", whole[:-9], b"\xff" * 4 + b"PAR1", whole[:20] + whole[-8:]):
        (tmp_path / "b.parquet").write_bytes(wrong)
        with pytest.raises(DataError, match=r"b.parquet in .* is no Parquet file"):
            planned("key")


def test_damage_inside_a_file_is_an_error_and_no_row(tmp_path: Path) -> None:
    pq.write_table(pa.table({"key": [b"%d" % i for i in range(1000)]}), tmp_path / "a.parquet", compression="zstd")
    table = asyncio.run(_planned(Folder(tmp_path.as_uri()), ("key",), MIB))
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[4:400] = b"\xff" * 396
    (tmp_path / "a.parquet").write_bytes(data)
    with pytest.raises(DataError, match=r"row group 0 of a.parquet"):
        read(table)
    assert [type(each) for each in table.shares] == [Share]
