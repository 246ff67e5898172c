"""The SSTs of a range of a run: built a chunk at a time, cut where they are large enough, and uploaded behind the merge.

:class:`RunBuilder` is the part that computes and runs in a thread; :class:`RunWriter` is the part that waits for the store.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from slate_engine.format.columns import Rows
from slate_engine.format.ids import Ulid
from slate_engine.format.sst_build import BuiltSst, Chunk, SstBuilder, SstOptions
from slate_engine.runtime import Runtime
from slate_engine.state.ssts import SstHandle
from slate_engine.store.protocol import ObjectStore

ROW_BYTES = 22
"""What a block holds of a row beside its key and value: lengths, sequence number, flags, a time, a share of the index."""

CHUNKS_BEHIND = 1
"""So many batches of finished bytes wait for the store, beside the one that it is given, before the merge waits."""


@dataclass(frozen=True)
class Piece:
    """Bytes of the SST under construction, in order; ``built`` comes with the last of them."""

    chunks: list[Chunk]
    built: BuiltSst | None = None


class RunBuilder:
    """Rows to SSTs of about ``max_size`` bytes, and of ``max_rows`` at most. The versions of one key may straddle two of
    them."""

    def __init__(self, options: SstOptions, max_size: int, max_rows: int) -> None:
        self._options = options
        self._max_size = max_size
        self._max_rows = max_rows
        self._builder = SstBuilder(options)

    def append(self, rows: Rows) -> list[Piece]:
        """Add rows that sort after all before; gives what is finished of it."""
        pieces: list[Piece] = []
        while len(rows):
            # A stored row is seldom larger than this reckons, so these do not go much beyond the end of the SST.
            fitting = _rows_within(rows, max(self._max_size - self._builder.size, self._options.block_size))
            fitting = min(fitting, self._max_rows - self._builder.rows)
            self._builder.append(rows.slice(0, fitting))
            rows = rows.slice(fitting, len(rows))
            if self._builder.size > self._max_size or self._builder.rows >= self._max_rows:
                pieces += self.finish()
        pieces.append(Piece(self._builder.take()))
        return [piece for piece in pieces if piece.chunks]

    def finish(self) -> list[Piece]:
        """Close the SST under construction, if any row is in it."""
        if not self._builder.rows:
            return []
        built = self._builder.finish()
        self._builder = SstBuilder(self._options)
        return [Piece(built.chunks, built)]


def _rows_within(rows: Rows, size: int) -> int:
    """How many of the rows come to about ``size`` bytes; at least one."""
    keys, values = rows.keys.offsets, rows.values.offsets
    base = int(keys[0]) + int(values[0])

    def weight(row: int) -> int:
        return int(keys[row]) + int(values[row]) - base + ROW_BYTES * row

    return max(bisect.bisect_right(range(len(rows) + 1), size, key=weight) - 1, 1)


class _Upload:
    """One SST on its way to the store."""

    def __init__(self, store: ObjectStore, key: str, id: Ulid) -> None:
        self.id = id
        self._chunks: asyncio.Queue[list[Chunk] | None] = asyncio.Queue(CHUNKS_BEHIND)
        self.done = asyncio.ensure_future(store.put_stream(key, self._stream()))

    async def send(self, chunks: list[Chunk] | None) -> None:
        """Hand over the next bytes, or None at the end. Raises what the upload failed with."""
        handing = asyncio.ensure_future(self._chunks.put(chunks))
        try:
            await asyncio.wait([handing, self.done], return_when=asyncio.FIRST_COMPLETED)
            if not handing.done():
                self.done.result()
        finally:
            handing.cancel()

    async def _stream(self) -> AsyncIterator[Chunk]:
        while (chunks := await self._chunks.get()) is not None:
            for chunk in chunks:
                yield chunk


class RunWriter:
    """Stores the pieces that a builder gives. ``stored`` is told of each SST that is in the store as a whole, in order."""

    def __init__(
        self,
        store: ObjectStore,
        key_of: Callable[[Ulid], str],
        runtime: Runtime,
        min_ms: int,
        stored: Callable[[SstHandle], None],
    ) -> None:
        self._store = store
        self._key_of = key_of
        self._runtime = runtime
        self._min_ms = min_ms
        self._stored = stored
        self._upload: _Upload | None = None
        self._closing: tuple[_Upload, SstHandle] | None = None

    async def write(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if self._upload is None:
                # Garbage collection and SlateDB both hold it for an error if an output is older than its job.
                id = Ulid.new(self._runtime, self._min_ms)
                self._upload = _Upload(self._store, self._key_of(id), id)
            await self._upload.send(piece.chunks)
            if piece.built is not None:
                await self._upload.send(None)
                await self._settle()
                handle = SstHandle(self._upload.id, piece.built.info, piece.built.version)
                self._closing, self._upload = (self._upload, handle), None

    async def finish(self) -> None:
        """Wait until everything is in the store."""
        await self._settle()

    async def abandon(self) -> None:
        """Leave off. What is unfinished never gets its name in the store."""
        under_way = [each.done for each in (self._upload, self._closing and self._closing[0]) if each]
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)

    async def _settle(self) -> None:
        """The SST that was closed last is stored while the next one is begun, but not longer."""
        if self._closing is not None:
            upload, handle = self._closing
            await upload.done
            self._closing = None
            self._stored(handle)
