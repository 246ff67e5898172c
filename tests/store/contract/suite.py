"""What every store must do. A backend is tested by a subclass with a ``store`` fixture.

class TestMemory(StoreContract):
    @pytest.fixture
    async def store(self): ...
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence

import pytest

from slate_engine.errors import InvalidError
from slate_engine.store.protocol import (
    CREATE,
    OVERWRITE,
    Attributes,
    Buffer,
    Conflict,
    Create,
    NotFound,
    NotModified,
    ObjectMeta,
    ObjectStore,
    PutMode,
    Update,
)

WRITERS = 16
MIB = 1 << 20


async def listed(store: ObjectStore, prefix: str, start_after: str = "") -> list[ObjectMeta]:
    return [meta async for page in store.list(prefix, start_after=start_after) for meta in page]


async def fill(store: ObjectStore, keys: Sequence[str], at_once: int = 32) -> None:
    """An object of a few bytes under each key."""
    queue = iter(keys)

    async def work() -> None:
        for key in queue:
            await store.put(key, key.encode())

    await asyncio.gather(*(work() for _ in range(at_once)))


async def wins(store: ObjectStore, key: str, data: Buffer, mode: PutMode) -> str | None:
    """The etag if the write won, None if it was refused; anything else is a failure of the test."""
    try:
        return await store.put(key, data, mode)
    except Conflict as conflict:
        if (conflict.key, conflict.mode) != (key, mode):
            raise AssertionError(f"a conflict of another write: {conflict}") from conflict
        return None


class StoreContract:
    rounds = 200
    """Of each race. Each round is on a key of its own."""
    large = 5 * MIB + 1
    """The size of a large conditional write: above what clients cut into parts."""
    stream = 101 * MIB
    many = 10_000
    keeps_attributes = True
    """Whether what a creator notes beside an object is kept."""
    attributes: Attributes = ()
    """What the store itself notes of an object."""
    listings_tell_etags = True
    """Whether the etag in a listing is the one that an update takes."""

    async def test_reads_back_what_was_put(self, store: ObjectStore) -> None:
        etag = await store.put("db/manifest/1", b"hello")
        found = await store.get("db/manifest/1")
        assert bytes(found.data) == b"hello"
        assert found.meta.key == "db/manifest/1"
        assert found.meta.size == 5
        assert found.meta.etag == etag
        for meta in (await store.head("db/manifest/1"), *await listed(store, "db/")):
            assert (meta.key, meta.size) == (found.meta.key, 5)
            assert meta.etag == etag or not self.listings_tell_etags
            # Some services tell seconds in one answer and milliseconds in another.
            assert abs(meta.last_modified_ms - found.meta.last_modified_ms) < 1000
        assert len(await listed(store, "db/")) == 1

    async def test_takes_any_buffer(self, store: ObjectStore) -> None:
        for number, data in enumerate((b"xyz", bytearray(b"xyz"), memoryview(b"-xyz-")[1:4])):
            await store.put(f"k{number}", data)
            assert bytes((await store.get(f"k{number}")).data) == b"xyz"

    async def test_says_when_it_was_written(self, store: ObjectStore) -> None:
        await store.put("a", b"1")
        first = await store.head("a")
        assert first.last_modified_ms > 1_600_000_000_000
        await store.put("a", b"2")
        assert (await store.head("a")).last_modified_ms >= first.last_modified_ms

    async def test_holds_empty_objects(self, store: ObjectStore) -> None:
        etag = await store.put("wal/fence", b"", CREATE)
        found = await store.get("wal/fence")
        assert bytes(found.data) == b""
        assert (found.meta.size, found.meta.etag) == (0, etag)
        assert [bytes(part) for part in await store.get_ranges("wal/fence", [(0, 10)])] == [b""]
        assert await wins(store, "wal/fence", b"", CREATE) is None

    async def test_says_what_is_missing(self, store: ObjectStore) -> None:
        for call in (store.get("no/such"), store.head("no/such"), store.get_ranges("no/such", [(0, 1)])):
            with pytest.raises(NotFound) as caught:
                await call
            assert caught.value.key == "no/such"
        with pytest.raises(NotFound):
            await store.copy("no/such", "elsewhere")
        assert await listed(store, "no/") == []

    async def test_a_folder_is_no_object(self, store: ObjectStore) -> None:
        await store.put("folder/inner/object", b"x")
        with pytest.raises(NotFound):
            await store.get("folder/inner")
        with pytest.raises(NotFound):
            await store.head("folder")
        with pytest.raises(NotFound):
            await store.get("folder/inner/object/deeper")

    async def test_creates_once(self, store: ObjectStore) -> None:
        etag = await wins(store, "a", b"first", CREATE)
        assert etag is not None
        assert await wins(store, "a", b"second", CREATE) is None
        found = await store.get("a")
        assert (bytes(found.data), found.meta.etag) == (b"first", etag)

    async def test_keeps_what_its_creator_noted(self, store: ObjectStore) -> None:
        noted = (("writer_epoch", "9"),)
        await store.put("wal/1", b"", Create(noted))
        await store.put("wal/2", b"rows", CREATE)
        assert await wins(store, "wal/1", b"late", Create((("writer_epoch", "8"),))) is None
        assert (await store.head("wal/1")).attributes == ((noted if self.keeps_attributes else ()) + self.attributes)
        assert (await store.head("wal/2")).attributes == self.attributes

    async def test_creates_again_after_delete(self, store: ObjectStore) -> None:
        await store.put("a", b"first", CREATE)
        await store.delete(["a"])
        assert await wins(store, "a", b"second", CREATE) is not None
        assert bytes((await store.get("a")).data) == b"second"

    async def test_updates_only_what_it_expects(self, store: ObjectStore) -> None:
        first = await store.put("a", b"first")
        second = await wins(store, "a", b"second", Update(first))
        assert second is not None
        assert second != first
        assert await wins(store, "a", b"third", Update(first)) is None
        assert await wins(store, "a", b"third", Update('"0123456789abcdef0123456789abcdef"')) is None
        found = await store.get("a")
        assert (bytes(found.data), found.meta.etag) == (b"second", second)
        assert await wins(store, "a", b"third", Update(found.meta.etag)) is not None

    async def test_updates_by_the_etag_of_a_head(self, store: ObjectStore) -> None:
        await store.put("a", b"first")
        assert await wins(store, "a", b"second", Update((await store.head("a")).etag)) is not None

    async def test_updates_nothing_that_is_gone(self, store: ObjectStore) -> None:
        etag = await store.put("a", b"first")
        await store.delete(["a"])
        assert await wins(store, "a", b"second", Update(etag)) is None
        with pytest.raises(NotFound):
            await store.get("a")

    async def test_overwrites(self, store: ObjectStore) -> None:
        await store.put("a", b"first")
        second = await store.put("a", b"second", OVERWRITE)
        assert (await store.head("a")).etag == second
        assert bytes((await store.get("a")).data) == b"second"

    async def test_large_writes_keep_their_condition(self, store: ObjectStore) -> None:
        data = bytes(self.large)
        first = await store.put("big", data, CREATE)
        assert await wins(store, "big", data, CREATE) is None
        second = await wins(store, "big", data[:-1], Update(first))
        assert second is not None
        assert await wins(store, "big", data, Update(first)) is None
        assert (await store.head("big")).size == self.large - 1

    async def test_gets_only_what_changed(self, store: ObjectStore) -> None:
        first = await store.put("a", b"first")
        with pytest.raises(NotModified):
            await store.get("a", if_none_match=first)
        await store.put("a", b"second!")
        found = await store.get("a", if_none_match=first)
        assert bytes(found.data) == b"second!"
        with pytest.raises(NotFound):
            await store.get("b", if_none_match=first)

    async def test_ranges(self, store: ObjectStore) -> None:
        data = bytes(range(256)) * 2048
        end = len(data)
        await store.put("a", data)
        ranges = [
            (0, 10),
            (end - 5, end),
            (5, 5),
            (100, 90_000),
            (300_000, 300_001),
            (50, 60),
            (end - 3, end + 1000),
            (end, end + 5),
            (end + 7, end + 9),
            (0, end),
            (end // 2, end * 10),
        ]
        found = await store.get_ranges("a", ranges)
        assert [bytes(part) for part in found] == [data[start:stop] for start, stop in ranges]
        for one in ranges:
            assert [bytes(part) for part in await store.get_ranges("a", [one])] == [data[slice(*one)]]
        with pytest.raises(InvalidError):
            await store.get_ranges("a", [(5, 4)])
        with pytest.raises(InvalidError):
            await store.get_ranges("a", [(-1, 4)])

    async def test_lists_in_order_by_prefix(self, store: ObjectStore) -> None:
        keys = ["a.b", "a/1", "a/2/x", "a/10", "ab", "b/1", "b/manifest/1", "b/manifest2/1", "c"]
        await fill(store, keys)
        for prefix in ("", "a", "a/", "a/1", "b/", "b/manifest", "b/manifest/", "c", "d", "a/2/x", "a/2/x/"):
            assert [meta.key for meta in await listed(store, prefix)] == sorted(k for k in keys if k.startswith(prefix))
        for start in ("a", "a/10", "a/2", "a/2/x", "b/manifest/0", "b/manifest/1", "zzz"):
            assert [m.key for m in await listed(store, "", start)] == sorted(key for key in keys if key > start)
        assert [m.key for m in await listed(store, "b/", "b/manifest/")] == ["b/manifest/1", "b/manifest2/1"]
        assert [m.key for m in await listed(store, "b/", "a")] == ["b/1", "b/manifest/1", "b/manifest2/1"]

    async def test_deletes_many_with_some_missing(self, store: ObjectStore) -> None:
        keys = [f"gc/{number}" for number in range(1100)]
        await fill(store, keys[::2])
        await fill(store, ["gc-kept"])
        await store.delete(keys)
        assert await listed(store, "gc/") == []
        await store.delete(keys[:3])
        await store.delete([])
        assert (await store.head("gc-kept")).size == 7

    async def test_lists_ten_thousand_from_a_key(self, store: ObjectStore) -> None:
        keys = [f"wal/{number:020d}.sst" for number in range(self.many)]
        await fill(store, keys)
        assert [meta.key for meta in await listed(store, "wal/")] == keys
        start = self.many * 2 // 3
        assert [meta.key for meta in await listed(store, "wal/", keys[start])] == keys[start + 1 :]
        pages = [page async for page in store.list("wal/", start_after=keys[-1])]
        assert pages == []

    async def test_copies(self, store: ObjectStore) -> None:
        await store.put("from", b"first")
        await store.put("deep/to", b"something else")
        await store.copy("from", "deep/to")
        await store.copy("from", "deep/to")
        assert bytes((await store.get("deep/to")).data) == b"first"
        await store.put("from", b"changed")
        assert bytes((await store.get("deep/to")).data) == b"first"
        copied = await store.head("deep/to")
        assert await wins(store, "deep/to", b"updated", Update(copied.etag)) is not None
        assert bytes((await store.get("from")).data) == b"changed"

    async def test_streams(self, store: ObjectStore) -> None:
        chunk = hashlib.sha256(b"chunk").digest() * 32768
        digest = hashlib.sha256()

        async def chunks() -> AsyncIterator[Buffer]:
            sent = 0
            while sent < self.stream:
                part = chunk[: min(len(chunk), self.stream - sent)]
                digest.update(part)
                sent += len(part)
                yield part

        etag = await store.put_stream("sst/large", chunks())
        meta = await store.head("sst/large")
        assert (meta.size, meta.etag) == (self.stream, etag)
        found = hashlib.sha256()
        for start in range(0, self.stream, 16 * MIB):
            for part in await store.get_ranges("sst/large", [(start, min(start + 16 * MIB, self.stream))]):
                found.update(part)
        assert found.digest() == digest.digest()

    @pytest.mark.parametrize("sizes", [[], [0], [1], [0, 7, 0, 3], [4 * MIB, 4 * MIB, 1]])
    async def test_streams_of_all_sizes(self, store: ObjectStore, sizes: list[int]) -> None:
        async def chunks() -> AsyncIterator[Buffer]:
            for number, size in enumerate(sizes):
                yield bytearray([number]) * size

        etag = await store.put_stream("a", chunks())
        found = await store.get("a")
        assert bytes(found.data) == b"".join(bytes([n]) * size for n, size in enumerate(sizes))
        assert found.meta.etag == etag

    @pytest.mark.parametrize("size", [10, 20 * MIB])
    async def test_a_broken_stream_leaves_nothing(self, store: ObjectStore, size: int) -> None:
        class Broken(Exception):
            pass

        async def chunks() -> AsyncIterator[Buffer]:
            for _ in range(0, size, MIB):
                yield bytes(min(size, MIB))
            raise Broken

        with pytest.raises(Broken):
            await store.put_stream("a", chunks())
        assert await listed(store, "") == []
        await store.put("a", b"kept")
        with pytest.raises(Broken):
            await store.put_stream("a", chunks())
        assert bytes((await store.get("a")).data) == b"kept"

    @pytest.mark.parametrize(
        "key",
        [
            "with space/and more",
            "per%20cent/%41/%",
            "plus+and&and=",
            "hash#tag/x#1a",
            "question?mark=1",
            "ümläut/日本語/🗿",
            "quotes'and(brackets)[x]{y}",
            "a:b;c,d@e!f$g",
            "tilde~under_score-dash.dot",
            ".hidden/..twodots/...",
            "x" * 200,
        ],
    )
    async def test_keys_with_odd_characters(self, store: ObjectStore, key: str) -> None:
        etag = await store.put(key, b"odd", CREATE)
        assert await wins(store, key, b"again", CREATE) is None
        assert bytes((await store.get(key)).data) == b"odd"
        assert [meta.key for meta in await listed(store, "")] == [key]
        assert [bytes(part) for part in await store.get_ranges(key, [(1, 3)])] == [b"dd"]
        updated = await store.put(key, b"new", Update(etag))
        await store.copy(key, "copy/" + key)
        assert (await store.head(key)).etag == updated
        assert bytes((await store.get("copy/" + key)).data) == b"new"
        await store.delete([key, "copy/" + key])
        assert await listed(store, "") == []

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/../b", "./a", "a/.", "a\nb", "a\x00b", "\x7f"])
    async def test_refuses_keys_that_not_every_store_can_hold(self, store: ObjectStore, key: str) -> None:
        with pytest.raises(InvalidError):
            await store.put(key, b"x")
        with pytest.raises(InvalidError):
            await store.get(key)
        with pytest.raises(InvalidError):
            await store.delete([key])
        assert await listed(store, "") == []

    async def test_of_many_creators_one_wins(self, store: ObjectStore) -> None:
        for number in range(self.rounds):
            key = f"manifest/{number:020d}.manifest"
            bodies = [f"round {number}, writer {writer}".encode() for writer in range(WRITERS)]
            etags = await asyncio.gather(*(wins(store, key, body, CREATE) for body in bodies))
            await self._one_won(store, key, bodies, etags)

    async def test_of_many_updaters_one_wins(self, store: ObjectStore) -> None:
        for number in range(self.rounds):
            key = f"gc/{number}.boundary"
            mode = Update(await store.put(key, b"start"))
            bodies = [f"round {number}, writer {writer}".encode() for writer in range(WRITERS)]
            etags = await asyncio.gather(*(wins(store, key, body, mode) for body in bodies))
            await self._one_won(store, key, bodies, etags)

    async def test_of_many_creators_of_the_same_bytes_one_wins(self, store: ObjectStore) -> None:
        """Like WAL fences, which are all empty: nothing but the store's own answer tells the winner."""
        for number in range(self.rounds):
            key = f"wal/{number:020d}.sst"
            etags = await asyncio.gather(*(wins(store, key, b"", CREATE) for _ in range(WRITERS)))
            await self._one_won(store, key, [b""] * WRITERS, etags)

    async def _one_won(
        self, store: ObjectStore, key: str, bodies: Sequence[bytes], etags: Sequence[str | None]
    ) -> None:
        winners = [(body, etag) for body, etag in zip(bodies, etags, strict=True) if etag is not None]
        assert len(winners) == 1, f"{len(winners)} of {len(bodies)} won {key}"
        found = await store.get(key)
        assert (bytes(found.data), found.meta.etag) == winners[0]
