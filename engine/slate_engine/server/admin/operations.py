"""Work that may take long, which can be asked about, and which survives the process.

An operation is an object beside the database, written before the work begins and when it ends. All the work is of the kind
that may be repeated, so a process that comes up does again what was not finished; two that do the same do no harm. What
others have overtaken meanwhile is not done again: see :mod:`slate_engine.server.admin.overtaking`.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar
from uuid import UUID

from slate_engine.errors import Error, InvalidError
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.server.admin.overtaking import Standing, is_overtaken
from slate_engine.server.http.problems import Problem
from slate_engine.store.protocol import CREATE, Conflict, NotFound, StoreUnavailable, Update

log = logging.getLogger(__name__)

PREFIX = "gc/operation-"
LONGEST_PAUSE = 30.0
KEEP_MS = 7 * 86_400_000
"""An operation that has ended can be asked about for so long."""
READS_AT_ONCE = 16
MAKES_A_DATABASE = ("clone", "copy")
"""Kinds of work that may be begun where there is no database. A record of any other would be all there is."""

T = TypeVar("T")


@dataclass(frozen=True)
class Operation:
    """``state`` is running, succeeded or failed."""

    id: UUID
    work: Mapping[str, Any]
    state: str
    created_ms: int
    updated_ms: int
    progress: Mapping[str, int] | None = None
    result: Mapping[str, Any] | None = None
    problem: Mapping[str, Any] | None = None
    began: Standing | None = None
    """How far the database was when it was submitted; None if there was no database."""

    @property
    def finished(self) -> bool:
        return self.state != "running"

    def document(self) -> dict[str, Any]:
        return {
            "id": str(self.id),
            "work": dict(self.work),
            "state": self.state,
            "created_ms": self.created_ms,
            "updated_ms": self.updated_ms,
            "progress": self.progress,
            "result": self.result,
            "problem": self.problem,
        }

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Operation:
        """``epoch`` alone is what an older service has stored."""
        known = {**document, "id": UUID(document["id"])}
        epoch, began = known.pop("epoch", None), known.pop("began", None)
        if began is not None:
            return cls(**known, began=Standing(**began))
        return cls(**known, began=None if epoch is None else Standing(epoch))


Progress = Callable[[int, int], None]
Carry = Callable[[Mapping[str, Any], UUID, Progress], Awaitable[Mapping[str, Any]]]
"""Does the work, whose id may name what it makes; tells how far it is; and returns what came of it."""


@dataclass
class Operations:
    """Those of one database."""

    files: DatabaseFiles
    carry: Carry
    _known: dict[UUID, Operation] = field(default_factory=dict)
    _unrecorded: set[UUID] = field(default_factory=set)
    """Those of which nothing is stored, as there is no database beside which it could be."""
    _tasks: dict[UUID, asyncio.Task[None]] = field(default_factory=dict)

    async def resume(self) -> None:
        """Go on with what an earlier process has not finished. May be called again if the store did not answer."""
        for operation in await self._stored():
            if operation.id not in self._tasks:
                self._known[operation.id] = operation
                if not operation.finished:
                    log.info("operation %s (%s) is gone on with", operation.id, operation.work["kind"])
                    self._begin(operation, again=True)
        await self._forget_old()

    async def submit(self, id: UUID, work: Mapping[str, Any]) -> Operation:
        """Begin the work, unless it was begun under this id before."""
        known = await self.get(id)
        again = known is not None
        if known is None:
            began, now = await Standing.of(self.files, work), self.files.runtime.now_ms()
            known = await self._recorded(Operation(id, work, "running", now, now, began=began))
        if dict(known.work) != dict(work):
            raise Problem(
                409,
                "operation-differs",
                "This id is taken",
                f"operation {id} is another one; give a new id",
                work=known.work,
            )
        if not known.finished and id not in self._tasks:
            self._begin(known, again)
        return known

    async def _recorded(self, operation: Operation) -> Operation:
        """Write a new operation down, or find the one that somebody has begun under its id."""
        if operation.work["kind"] not in MAKES_A_DATABASE and operation.began is None:
            self._unrecorded.add(operation.id)
            return operation
        try:
            await self.files.store.put(self._key(operation.id), _encoded(operation), CREATE)
        except Conflict:
            return await self._read(operation.id)
        return operation

    async def get(self, id: UUID) -> Operation | None:
        if id in self._known:
            return self._known[id]
        try:
            return await self._read(id)
        except NotFound:
            return None

    async def all(self) -> list[Operation]:
        found = {operation.id: operation for operation in await self._stored()}
        return sorted({**found, **self._known}.values(), key=lambda operation: operation.created_ms)

    async def close(self) -> None:
        """What is not finished is left to the next process."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # --- doing it ------------------------------------------------------------------------------------------------

    def _begin(self, operation: Operation, again: bool) -> None:
        self._known[operation.id] = operation
        task = self._tasks[operation.id] = asyncio.ensure_future(self._carry_out(operation, again))
        task.add_done_callback(lambda _: self._tasks.pop(operation.id, None))

    async def _carry_out(self, operation: Operation, again: bool) -> None:
        """``again``: an earlier attempt may have done some of it, or all."""

        async def attempt() -> dict[str, Any]:
            nonlocal again
            repeated, again = again, True
            return await self._attempt(operation, repeated)

        try:
            outcome = await self._patiently(operation.id, attempt)
            now = self.files.runtime.now_ms()
            finished = replace(self._known[operation.id], updated_ms=now, **outcome)
            finished = await self._patiently(operation.id, lambda: self._record_end(finished))
        except Exception:
            log.exception("operation %s broke down; the next process takes it up again", operation.id)
            return
        # Only now: whoever is told of it may rely on it, whatever becomes of this process.
        self._known[operation.id] = finished
        log.info("operation %s (%s) has %s", operation.id, operation.work["kind"], finished.state)
        await self._forget_old()

    async def _attempt(self, operation: Operation, repeated: bool) -> dict[str, Any]:
        try:
            if repeated:
                await self._check_not_overtaken(operation)
            result = await self.carry(operation.work, operation.id, lambda *far: self._progress(operation.id, *far))
            return {"state": "succeeded", "result": result}
        except StoreUnavailable:
            raise
        except (Error, Problem) as error:
            problem = error if isinstance(error, Problem) else Problem.of(error)
            return {"state": "failed", "problem": problem.document}
        except Exception:
            log.exception("operation %s broke down", operation.id)
            broken = Problem(500, "internal", "The service failed", f"see the log for operation {operation.id}")
            return {"state": "failed", "problem": broken.document}

    async def _check_not_overtaken(self, operation: Operation) -> None:
        if await is_overtaken(self.files, operation.work, operation.id, operation.began):
            raise Problem(
                409,
                "overtaken",
                "The database has changed since",
                f"operation {operation.id} was interrupted, and since then others opened, wrote, destroyed or brought back "
                f"the database, so it was not begun again; look at the database, and ask for the {operation.work['kind']} "
                "again, under a new id, if you still want it",
            )

    async def _patiently(self, id: UUID, step: Callable[[], Awaitable[T]]) -> T:
        pause = 1.0
        while True:
            try:
                return await step()
            except StoreUnavailable as trouble:
                log.warning("operation %s waits for the store: %s", id, trouble)
                await self.files.runtime.sleep(pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _progress(self, id: UUID, done: int, total: int) -> None:
        self._known[id] = replace(self._known[id], progress={"done": done, "total": total})

    # --- what is stored of it ------------------------------------------------------------------------------------

    async def _record_end(self, finished: Operation) -> Operation:
        """Write down how it ended. Another process at the same work may have done so already: one of the two may have shut
        the other out, and that makes no failure of what was done. So a success stays."""
        work = finished.work
        if work["kind"] == "destroy" and work.get("mode") == "hard" and finished.state == "succeeded":
            return finished  # the record went with the database, and must not be all that is left of it
        if finished.id in self._unrecorded:
            return finished
        while True:
            try:
                found = await self.files.store.get(self._key(finished.id))
            except NotFound:
                return finished  # the database was deleted meanwhile, and its record must not be all that is left
            known = _decoded(bytes(found.data))
            if known.state == "succeeded" or (known.finished and finished.state == "failed"):
                return known
            try:
                await self.files.store.put(self._key(finished.id), _encoded(finished), Update(found.meta.etag))
                return finished
            except Conflict:
                continue

    async def _forget_old(self) -> None:
        """Records of what ended long ago are deleted, so that they do not become more and more."""
        before = self.files.runtime.now_ms() - KEEP_MS
        old = [each.id for each in self._known.values() if each.finished and each.updated_ms < before]
        try:
            if stored := [self._key(id) for id in old if id not in self._unrecorded]:
                await self.files.store.delete(stored)
        except StoreUnavailable as trouble:
            log.warning("%d old operations are not deleted yet: %s", len(old), trouble)
            return
        for id in old:
            self._known.pop(id, None)
            self._unrecorded.discard(id)

    async def _stored(self) -> list[Operation]:
        prefix = self.files.paths.under(PREFIX)
        keys = [meta.key async for page in self.files.store.list(prefix) for meta in page]
        slots = asyncio.Semaphore(READS_AT_ONCE)
        found = await asyncio.gather(*(self._stored_at(key, slots) for key in keys))
        return [operation for operation in found if operation is not None]

    async def _stored_at(self, key: str, slots: asyncio.Semaphore) -> Operation | None:
        async with slots:
            try:
                return _decoded(bytes((await self.files.store.get(key)).data))
            except NotFound:
                return None
            except InvalidError as error:
                log.warning("%s is no operation and is passed over: %s", key, error)
                return None

    async def _read(self, id: UUID) -> Operation:
        return _decoded(bytes((await self.files.store.get(self._key(id))).data))

    def _key(self, id: UUID) -> str:
        return self.files.paths.under(f"{PREFIX}{id}.json")


def _encoded(operation: Operation) -> bytes:
    began = None if operation.began is None else asdict(operation.began)
    return json.dumps({**operation.document(), "began": began}).encode()


def _decoded(data: bytes) -> Operation:
    try:
        return Operation.of(json.loads(data))
    except (ValueError, TypeError, KeyError) as error:
        raise InvalidError(f"not the record of an operation: {error}") from None
