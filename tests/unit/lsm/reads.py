"""A store that remembers what was read from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from slate_engine.runtime import SystemRuntime
from slate_engine.store.memory import MemoryStore
from slate_engine.store.protocol import Buffer, Object
from tests.interop.author import Author
from tests.interop.history import Kind, Operation
from tests.interop.style import Style

RUNTIME = SystemRuntime(threads=2)


class Read(NamedTuple):
    key: str
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


class RecordingStore(MemoryStore):
    """A memory store, and the ranges and whole objects that were asked of it, in order."""

    def __init__(self) -> None:
        super().__init__(RUNTIME)
        self.reads: list[Read] = []
        self.gets: list[str] = []

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        self.gets.append(key)
        return await super().get(key, if_none_match=if_none_match)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        self.reads += [Read(key, *span) for span in ranges]
        return await super().get_ranges(key, ranges)

    def take(self) -> list[Read]:
        """The ranges that were read since the last call."""
        reads, self.reads = self.reads, []
        return reads

    async def change(self, key: str, offset: int, data: bytes) -> None:
        """Overwrite some bytes of an object, as a broken disk might."""
        found = bytearray((await MemoryStore.get(self, key)).data)
        found[offset : offset + len(data)] = data
        await self.put(key, bytes(found))


def put(key: bytes, value: bytes = b"v") -> Operation:
    return Operation(Kind.PUT, key, value)


async def new_database(style: Style | None = None) -> Author:
    """An empty database at ``db`` of a recording store."""
    return await Author(RecordingStore(), "db", style or Style()).create()
