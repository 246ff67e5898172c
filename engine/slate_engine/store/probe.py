"""Proof that a bucket's conditional writes hold, before anything relies on them.

Some servers answer 200 to a conditional PUT and ignore the condition; some check it and then write, so that two writers
that come at once both win. On such a server a fenced writer goes on writing and databases are lost. So at the first
conditional write to a bucket :class:`ProbedStore` tries them out: sequentially, and as a race. If they fail, the write is
refused, and the error says which check failed and what to do.

A bucket that has passed is remembered: in this process, and for a week in a local cache folder, because each ``slate``
command is a process of its own and the proof costs some eighty requests. A bucket that failed is tried again next time.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Sequence
from pathlib import Path

from slate_engine.errors import Error, InvalidError
from slate_engine.runtime import Runtime, uuid4
from slate_engine.store.protocol import (
    CREATE,
    OVERWRITE,
    Buffer,
    Conflict,
    Denied,
    Object,
    ObjectMeta,
    ObjectStore,
    Overwrite,
    PutMode,
    Update,
)

FOLDER = ".slatekeeper-probe"
WRITERS = 8
ROUNDS = 4
"""Per kind of race. A server that checks and then writes loses most single rounds of eight, so four will find it out."""
VALID_MS = 7 * 24 * 3600 * 1000
_log = logging.getLogger(__name__)


class ConditionalWritesUnsupported(InvalidError):
    """This server does not keep the promise that a database rests on. ``check`` names what it failed."""

    def __init__(self, url: str, check: str, found: str) -> None:
        super().__init__(
            f"{url} cannot be written safely: its conditional writes fail the check «{check}» ({found}). Use a server whose"
            " conditional writes hold (If-None-Match and If-Match on PUT), or set the option `cas` to a transactional store,"
            " for example cas=sqlite:///path or cas=dynamodb://table, to make writes safe without them"
        )
        self.check = check


async def prove(store: ObjectStore, runtime: Runtime) -> None:
    """Raises :class:`ConditionalWritesUnsupported` unless every check holds. Leaves nothing behind."""
    folder = f"{FOLDER}/{uuid4(runtime)}"
    keys = [f"{folder}/{name}" for name in ("plain", *(f"race-{round}" for round in range(ROUNDS)))]
    try:
        await _prove_in_sequence(store, keys[0])
        for key in keys[1:]:
            await _prove_in_a_race(store, key)
    finally:
        try:
            await store.delete(keys)
        except Error as error:
            _log.warning("the probe's objects under %s/%s could not be removed: %s", store.url, folder, error)


async def _prove_in_sequence(store: ObjectStore, key: str) -> None:
    first = await _must_win(store, key, b"first", CREATE, "create a new object")
    await _must_conflict(store, key, b"second", CREATE, "create an object that exists")
    await _must_conflict(
        store, key, b"second", Update('"0123456789abcdef0123456789abcdef"'), "update with a wrong etag"
    )
    second = await _must_win(store, key, b"second", Update(first), "update with the right etag")
    await _must_conflict(store, key, b"third", Update(first), "update with a former etag")
    stored = await store.get(key)
    if bytes(stored.data) != b"second" or stored.meta.etag != second:
        raise ConditionalWritesUnsupported(store.url, "read back what won", "other bytes or another etag are there")


async def _prove_in_a_race(store: ObjectStore, key: str) -> None:
    """Eight creators at once, then eight updaters of what won."""
    mode: PutMode = CREATE
    for check in ("one of several creators wins", "one of several updaters wins"):
        bodies = [f"{check}, writer {writer}".encode() for writer in range(WRITERS)]
        etags = await asyncio.gather(*(_attempt(store, key, body, mode) for body in bodies))
        winners = [body for body, etag in zip(bodies, etags, strict=True) if etag is not None]
        if len(winners) != 1:
            raise ConditionalWritesUnsupported(store.url, check, f"{len(winners)} of {WRITERS} were told that they won")
        stored = await store.get(key)
        if bytes(stored.data) != winners[0]:
            raise ConditionalWritesUnsupported(store.url, check, "the object is not the winner's")
        mode = Update(stored.meta.etag)


async def _attempt(store: ObjectStore, key: str, data: bytes, mode: PutMode) -> str | None:
    try:
        return await store.put(key, data, mode)
    except Conflict:
        return None


async def _must_win(store: ObjectStore, key: str, data: bytes, mode: PutMode, check: str) -> str:
    try:
        etag = await _attempt(store, key, data, mode)
    except Denied:
        raise
    except InvalidError as error:
        raise ConditionalWritesUnsupported(store.url, check, error.message) from error
    if etag is None:
        raise ConditionalWritesUnsupported(store.url, check, "it was refused")
    return etag


async def _must_conflict(store: ObjectStore, key: str, data: bytes, mode: PutMode, check: str) -> None:
    if await _attempt(store, key, data, mode) is not None:
        raise ConditionalWritesUnsupported(store.url, check, "it was accepted, and must be refused")


class Proofs:
    """When which place has passed, by an identity such as ``s3 endpoint bucket``: in ``held``, which all stores of a process
    may share, and in the files of ``folder``, if given."""

    def __init__(self, runtime: Runtime, held: dict[str, int], folder: Path | None = None) -> None:
        self._runtime = runtime
        self._held = held
        self._folder = folder

    def holds(self, place: str) -> bool:
        proven = self._held.get(place) or self._read(place)
        return proven is not None and 0 <= self._runtime.now_ms() - proven < VALID_MS

    def keep(self, place: str) -> None:
        now = self._held[place] = self._runtime.now_ms()
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            draft = self._file(place).with_suffix(f".{self._runtime.random_bytes(4).hex()}")
            draft.write_text(json.dumps({"place": place, "proven_ms": now}))
            draft.replace(self._file(place))
        except OSError as error:
            _log.info("the proof for %s is not cached on disk: %s", place, error)

    def _read(self, place: str) -> int | None:
        if self._folder is None:
            return None
        try:
            kept = json.loads(self._file(place).read_text())
            return int(kept["proven_ms"]) if kept["place"] == place else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # not there or not readable: prove it again

    def _file(self, place: str) -> Path:
        assert self._folder is not None
        return self._folder / f"{hashlib.sha256(place.encode()).hexdigest()[:32]}.json"


class ProbedStore:
    """The store behind it; its first conditional write waits for the proof that conditional writes hold there."""

    def __init__(self, inner: ObjectStore, runtime: Runtime, proofs: Proofs, place: str) -> None:
        self._inner = inner
        self._runtime = runtime
        self._proofs = proofs
        self._place = place
        self._proven = False
        self._proving = asyncio.Lock()

    @property
    def url(self) -> str:
        return self._inner.url

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if not self._proven and not isinstance(mode, Overwrite):
            await self._prove()
        return await self._inner.put(key, data, mode)

    async def _prove(self) -> None:
        async with self._proving:
            if not self._proofs.holds(self._place):
                await prove(self._inner, self._runtime)
                self._proofs.keep(self._place)
            self._proven = True

    async def get(self, key: str, *, if_none_match: str | None = None) -> Object:
        return await self._inner.get(key, if_none_match=if_none_match)

    async def get_ranges(self, key: str, ranges: Sequence[tuple[int, int]]) -> list[Buffer]:
        return await self._inner.get_ranges(key, ranges)

    async def head(self, key: str) -> ObjectMeta:
        return await self._inner.head(key)

    async def put_stream(self, key: str, chunks: AsyncIterable[Buffer]) -> str:
        return await self._inner.put_stream(key, chunks)

    async def copy(self, source: str, destination: str) -> None:
        await self._inner.copy(source, destination)

    def list(self, prefix: str, *, start_after: str = "") -> AsyncIterator[list[ObjectMeta]]:
        return self._inner.list(prefix, start_after=start_after)

    async def delete(self, keys: Iterable[str]) -> None:
        await self._inner.delete(keys)

    async def close(self) -> None:
        await self._inner.close()
