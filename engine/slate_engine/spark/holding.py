"""Checkpoints that a Spark application needs: made when a frame is first planned, prolonged while the application runs,
deleted at its end.

Spark plans a frame in short-lived processes beside the driver, and none of them knows when the work ends: a cached frame
may be read again after hours. The driver knows, so it holds them all: a :class:`Keeper` listens on a socket of the
driver's machine, to which :func:`hold` speaks. It also remembers at which checkpoint of the user's a frame was first
planned, for the name of one may pass to another. What a driver that was killed leaves behind expires by itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import shutil
import socket
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

from slate_engine.admin.checkpoints import (
    CheckpointOptions,
    create_checkpoint,
    delete_checkpoint,
    refresh_checkpoint,
)
from slate_engine.errors import Error, InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import Runtime, SystemRuntime
from slate_engine.spark.options import Location
from slate_engine.state.checkpoints import CheckpointMissing

log = logging.getLogger(__name__)
T = TypeVar("T")

NAME = "spark"
"""The name of these checkpoints, so that a person who lists them knows whose they are."""

LOOKS_PER_LIFE = 4
"""A checkpoint is prolonged so often while it lives: three refusals of the store in a row do no harm."""

PATIENCE = 30.0
"""The end of the driver waits at most so many seconds for the store; what is not deleted then expires."""


@dataclass(frozen=True)
class Wanted:
    """A checkpoint to make and hold: of the present state with its whole log, or of what ``source`` keeps."""

    id: UUID
    location: Location
    lifetime_ms: int
    source: UUID | None = None

    def line(self) -> bytes:
        place = {**asdict(self.location), "store_options": dict(self.location.store_options)}
        source = None if self.source is None else str(self.source)
        return json.dumps([str(self.id), place, self.lifetime_ms, source]).encode() + b"\n"

    @staticmethod
    def of_line(line: bytes) -> Wanted:
        id, place, lifetime_ms, source = json.loads(line)
        return Wanted(UUID(id), Location(**place), lifetime_ms, None if source is None else UUID(source))


def hold(keeper: str, wanted: Wanted) -> None:
    """Have the driver make this checkpoint, and hold it from now on. Asking again for the same one does nothing."""
    _ask(keeper, b"hold", wanted.line())


def first_source(keeper: str, frame: UUID, found: UUID | None = None) -> UUID | None:
    """The checkpoint of which the driver was told first for this frame; ``found``, if it was told of none before."""
    answer = _ask(keeper, b"source", json.dumps([str(frame), None if found is None else str(found)]).encode() + b"\n")
    return None if answer is None else UUID(answer)


def _ask(keeper: str, what: bytes, line: bytes) -> str | None:
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(keeper)
            connection.sendall(what + b" " + line)
            answer = connection.makefile("rb").readline()
    except OSError as error:
        raise InvalidError(
            "the driver of this Spark application holds no checkpoints "
            f"({error.strerror or 'not registered'}): call slate_engine.spark.register(spark) in the driver's Python, or "
            'make a checkpoint that does not expire, and give its id with option("checkpoint", …)'
        ) from None
    result: str | None
    result, trouble = json.loads(answer or b'[null, "the driver hung up"]')
    if trouble:
        raise InvalidError(f"no checkpoint could be made for this read: {trouble}")
    return result


class _OwnThread(SystemRuntime):
    """Does blocking work where it stands: the keeper has its thread for itself, and at the interpreter's end there is no
    pool of threads any more."""

    async def run(self, work: Callable[..., T], *args: object) -> T:
        return work(*args)


class Keeper:
    """Holds the checkpoints of one application, in a thread of the driver, until :meth:`close` or until ``is_over``."""

    def __init__(self, is_over: Callable[[], bool] = lambda: False, runtime: Runtime | None = None) -> None:
        self._is_over = is_over
        self._runtime = runtime or _OwnThread()
        self._held: dict[UUID, tuple[Wanted, asyncio.Task[None]]] = {}
        self._released: set[UUID] = set()
        self._sources: dict[UUID, UUID] = {}
        """The checkpoint of the user's at which a frame was first planned. It stays for as long as the driver: a name may
        pass to another checkpoint, and a frame shows one state."""
        self._turns: defaultdict[UUID, asyncio.Lock] = defaultdict(asyncio.Lock)
        """One for each checkpoint: two plans of a frame may ask for it at once, and a release may come between."""
        # Only this user may enter the folder, and so the socket: credentials pass through it.
        self._folder = tempfile.mkdtemp(prefix="slate-spark-")
        self.address = os.path.join(self._folder, "keeper")
        self._loop = asyncio.new_event_loop()
        self._listening = threading.Event()
        self._stop: asyncio.Event
        self._thread = threading.Thread(target=self._main, name="slate-keeper", daemon=True)
        self._thread.start()
        self._listening.wait(PATIENCE)

    @property
    def held(self) -> list[UUID]:
        return list(self._held)

    def release(self) -> None:
        """Delete every checkpoint that is held now. Frames that were made before cannot be read any more."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._release_all(), self._loop).result(PATIENCE)

    def close(self) -> None:
        """The application ends. Closing twice is closing once."""
        if self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop is closed: the keeper ends by itself
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(PATIENCE)

    # --- in the keeper's thread ----------------------------------------------------------------------------------

    def _main(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()
            shutil.rmtree(self._folder, ignore_errors=True)

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        server = await asyncio.start_unix_server(self._answer, self.address, limit=1 << 20)
        self._listening.set()
        async with server:
            while not self._stop.is_set() and not self._is_over():
                try:
                    await asyncio.wait_for(self._stop.wait(), 0.5)
                except TimeoutError:
                    continue
        await self._release_all()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        result: str | None = None
        trouble: str | None = None
        try:
            what, _, line = (await reader.readline()).partition(b" ")
            if what == b"source":
                result = self._first_source(*json.loads(line))
            else:
                wanted = Wanted.of_line(line)
                async with self._turns[wanted.id]:
                    await self._hold(wanted)
        except Error as error:
            trouble = error.message
        except Exception as error:
            trouble = f"{type(error).__name__}: {error}"
        writer.write(json.dumps([result, trouble]).encode() + b"\n")
        await writer.drain()
        writer.close()

    def _first_source(self, frame: str, found: str | None) -> str | None:
        if found is not None:
            self._sources.setdefault(UUID(frame), UUID(found))
        known = self._sources.get(UUID(frame))
        return None if known is None else str(known)

    async def _hold(self, wanted: Wanted) -> None:
        if wanted.id in self._held:
            return
        if wanted.id in self._released:
            raise InvalidError("this frame was let go by release(spark): load it again")

        async def make(files: DatabaseFiles) -> None:
            options = CheckpointOptions(wanted.lifetime_ms, wanted.source, NAME, wanted.id, whole_log=True)
            await create_checkpoint(files, options)

        await self._with_files(wanted, make)
        self._held[wanted.id] = wanted, asyncio.ensure_future(self._prolong(wanted))

    async def _prolong(self, wanted: Wanted) -> None:
        while True:
            await self._runtime.sleep(wanted.lifetime_ms / 1000 / LOOKS_PER_LIFE)
            try:
                await self._with_files(wanted, lambda files: refresh_checkpoint(files, wanted.id, wanted.lifetime_ms))
            except CheckpointMissing:
                log.warning("checkpoint %s of this application was deleted; frames that need it will fail", wanted.id)
                return
            except Exception as trouble:
                # Whatever it is, it may be over the next time; nobody else prolongs it.
                log.warning("checkpoint %s could not be prolonged yet: %s", wanted.id, trouble)

    async def _release_all(self) -> None:
        while self._held:
            id = next(iter(self._held))
            async with self._turns[id]:
                await self._release(id)

    async def _release(self, id: UUID) -> None:
        if id not in self._held:
            return
        wanted, prolonging = self._held.pop(id)
        prolonging.cancel()
        # The same checkpoint, made again, would be of another state.
        self._released.add(id)
        try:
            await self._with_files(wanted, partial(delete_checkpoint, id=id))
        except Exception as trouble:
            # The others are to be let go all the same.
            log.warning("checkpoint %s could not be deleted, and will expire: %s", id, trouble)

    async def _with_files(self, wanted: Wanted, work: Callable[[DatabaseFiles], Any]) -> None:
        store, wal_store = wanted.location.open(self._runtime), wanted.location.open_wal(self._runtime)
        try:
            await work(DatabaseFiles(store, wanted.location.path, self._runtime, wal_store=wal_store))
        finally:
            await store.close()
            if wal_store is not None:
                await wal_store.close()
