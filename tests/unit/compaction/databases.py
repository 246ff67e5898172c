"""Small databases in memory, and a store that dies at a given request."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from slate_engine.format.columns import HAS_CREATE, MERGE, TOMBSTONE, Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import SstOptions, build_sst
from slate_engine.lsm.compaction.compactor import Report, compact_once
from slate_engine.lsm.compaction.options import CompactorOptions, MergeOptions, WorkerOptions
from slate_engine.lsm.compaction.plan import Policy
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.row import Row
from slate_engine.runtime import Runtime
from slate_engine.state.manifest import Manifest
from slate_engine.state.ssts import SstHandle
from slate_engine.state.stores import CompactionsStore
from slate_engine.state.tree import Tree
from slate_engine.state.views import SstView, Views
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import OVERWRITE, Buffer, Object, ObjectMeta, ObjectStore, PutMode, StoreUnavailable
from tests.unit.compaction.plain import Concat

T = TypeVar("T")
WRITES = frozenset({"put", "put_stream"})

SST = SstOptions(block_size=1024, min_filter_keys=10)
MERGE_OPTIONS = MergeOptions(SST, max_sst_size=2048, max_subcompactions=3, min_range_bytes=1)
OPTIONS = CompactorOptions(worker=WorkerOptions(MERGE_OPTIONS, memory_bytes=1))
"""Small outputs, small chunks and several ranges, so that a little database goes through everything."""


def open_files(store: ObjectStore, runtime: Runtime) -> DatabaseFiles:
    return DatabaseFiles(store, "db", runtime, Concat())


def book_of(files: DatabaseFiles) -> CompactionsStore:
    return CompactionsStore.open(files.store, files.paths.root, files.runtime)


@dataclass
class Scribe:
    """Writes SSTs of L0 straight into a database, as a writer would have, and knows what is in it."""

    files: DatabaseFiles
    chance: random.Random = field(default_factory=lambda: random.Random(1))
    seq: int = 0

    async def create(self) -> Scribe:
        await self.files.manifests.create_first(Manifest())
        return self

    async def flush(self, keys: int = 60, segment: bytes = b"") -> None:
        """One SST of L0 with some of the keys put, deleted or merged."""
        rows: list[Row] = []
        for key in sorted(self.chance.sample(range(100), keys)):
            self.seq += 1
            kind = self.chance.choice([0, 0, 0, TOMBSTONE, MERGE])
            value = b"" if kind == TOMBSTONE else b"%d." % self.seq + self.chance.randbytes(120)
            rows.append(Row(segment + b"key%03d" % key, value, self.seq, kind | HAS_CREATE, self.seq, 0))
        await self.add(rows, segment)

    async def add(self, rows: Sequence[Row], segment: bytes = b"", options: SstOptions = SST) -> SstHandle:
        built = build_sst(Rows.of(rows), options)
        handle = SstHandle(Ulid.new(self.files.runtime), built.info, built.version)
        await self.files.store.put(self.files.paths.compacted(handle.id), built.tobytes())

        def added(old: Manifest) -> Manifest:
            tree = (old.trees.tree(segment) or Tree()).with_l0(Views.of([SstView(handle.id, handle)]))
            last = max(row.seq for row in rows)
            new = old.with_tree(segment, tree)
            return replace(new, last_l0_seq=last, last_l0_clock_tick=last, recent_snapshot_min_seq=last)

        await self.files.manifests.update(added)
        return handle


async def rows_of(files: DatabaseFiles) -> list[Row]:
    """What a reader sees."""
    snapshot = await files.latest()
    return [Row(*row) async for rows in snapshot.scan() for row in rows.tuples()]


async def compact(files: DatabaseFiles, policy: Policy, options: CompactorOptions = OPTIONS) -> Report:
    return await compact_once(files, policy, options, force=True)


class Mortal:
    """One process's way to a store. After request number ``last`` (of those that ``counts`` accepts) nothing gets through
    any more, as if the process had been killed; the last one itself is carried out, its answer is not heard. With ``late``
    it is carried out so many seconds afterwards. ``before`` and ``after`` are called around every request."""

    def __init__(
        self,
        store: MemoryStore,
        runtime: Runtime,
        last: int | None = None,
        *,
        counts: frozenset[str] = frozenset(),
        late: float = 0.0,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self._last = last
        self._counts = counts
        self._late = late
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], Awaitable[None]] | None = None
        self.after: Callable[[str, str], Awaitable[None]] | None = None
        self._counted = 0
        self._under_way: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return self._store.url

    @property
    def dead(self) -> bool:
        return self._last is not None and self._counted >= self._last

    def kill(self) -> None:
        self._last = 0

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._call("get", key, lambda: self._store.get(key, if_none_match=if_none_match))

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._call("get_ranges", key, lambda: self._store.get_ranges(key, ranges))

    async def head(self, key: str) -> ObjectMeta:
        return await self._call("head", key, lambda: self._store.head(key))

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        return await self._call("put", key, lambda: self._store.put(key, data, mode))

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        whole = b"".join([bytes(chunk) async for chunk in chunks])
        return await self._call("put_stream", key, lambda: self._store.put(key, whole))

    async def copy(self, source: str, destination: str) -> None:
        await self._call("copy", destination, lambda: self._store.copy(source, destination))

    async def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        async for page in self._store.list(prefix, start_after=start_after):
            yield await self._call("list", prefix, lambda page=page: _given(page))  # type: ignore[misc]

    async def delete(self, keys: Iterable[str]) -> None:
        await self._call("delete", "", lambda: self._store.delete(keys))

    async def close(self) -> None: ...

    async def _call(self, operation: str, key: str, call: Callable[[], Awaitable[T]]) -> T:
        await self._runtime.sleep(0.001)
        if self.before is not None:
            await self.before(operation, key)
        if self.dead:
            raise StoreUnavailable("the process is dead", retryable=False)
        self.requests.append((operation, key))
        self._counted += not self._counts or operation in self._counts
        if not self.dead:
            answer = await call()
            if self.after is not None:
                await self.after(operation, key)
            return answer
        if self._late:
            self._send_late(call)
        else:
            await call()
        raise StoreUnavailable("the process died", retryable=False, unknown_outcome=True)

    def _send_late(self, call: Callable[[], Awaitable[object]]) -> None:
        async def arrive() -> None:
            await self._runtime.sleep(self._late)
            await asyncio.gather(call(), return_exceptions=True)

        task = asyncio.ensure_future(arrive())
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)


async def _given(value: T) -> T:
    return value
