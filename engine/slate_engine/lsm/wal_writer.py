"""The write-ahead log of a live writer: rows go in as they are committed, and are durable when their file is stored.

Commits that come while a file is being written share the next one (group commit). A file is written when somebody waits
for its rows, when it is large enough, or when its first row has waited for the flush interval. The files carry consecutive
ids and are created if absent: an id that is taken means that another writer has come.

Up to ``max_parallel`` files are under way at once. Rows are acknowledged when their own file is stored *and all before it
are*. RFC-0001 proposes to acknowledge each as soon as it is stored, and to have the next writer look behind gaps; but the
original's readers and writers end at a gap, or refuse the log, so after a crash an acknowledged row behind one would be gone
for them. What a crash leaves behind a gap was never acknowledged. The next writer of ours fills the gap with an empty file;
the original cannot, and refuses a log that it would have to read across one ("wal truncated") until that is done.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence

from slate_engine.errors import ClosedError, CloseReason, DatabaseDeleted, Error
from slate_engine.format.columns import Rows
from slate_engine.format.sst_meta import Codec
from slate_engine.format.wal import build_wal_sst
from slate_engine.lsm.loops import Loop
from slate_engine.lsm.memtable import OBJECT_OVERHEAD
from slate_engine.lsm.outage import Outage
from slate_engine.lsm.row import Row
from slate_engine.lsm.tenure import Tenure
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.destroy import LINGER
from slate_engine.store.protocol import Conflict, NotFound, StoreUnavailable

log = logging.getLogger(__name__)

INLINE_ROWS, INLINE_BYTES = 2000, 1 << 20
"""Fewer rows and bytes than this are encoded at once: handing them to a thread would take longer."""

SETTLE_SECONDS = 10.0
"""A close without a flush waits so long for files that are under way."""

TOO_SLOW = (
    f"the store takes more than {LINGER:g} s for a look at the manifest, and a write is acknowledged only within that time "
    "after such a look began; writes wait until the store is faster"
)


class WalFile:
    """The rows of one WAL file, from the first commit until it is stored."""

    def __init__(self, opened: float) -> None:
        self.rows: list[Row] = []
        """Until they are encoded."""
        self.bytes = 0
        self.last_seq = 0
        self.opened = opened
        self.wanted = False
        self.stored: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def memory_bytes(self) -> int:
        return self.bytes + OBJECT_OVERHEAD * len(self.rows)

    def fail(self, error: Error) -> None:
        if not self.stored.done():
            self.stored.set_exception(error)
            self.stored.exception()  # whoever waits gets it; nobody has to


class WalWriter:
    """Writes the WAL from ``next_id`` on, and signs it. ``advanced`` is called when rows have become durable, ``failed``
    when nothing more can be written: an id turned out to be taken.

    A file that is stored proves nothing where the database was deleted, and its fences with it. So nothing is stored or
    acknowledged unless ``is_current`` says that a look at the manifest was recent enough; if not, ``look`` comes first."""

    def __init__(
        self,
        tenure: Tenure,
        options: WriterOptions,
        *,
        next_id: int,
        durable_seq: int,
        advanced: Callable[[], None],
        failed: Callable[[Error], None],
        is_current: Callable[[], bool],
        look: Callable[[], Awaitable[None]],
    ) -> None:
        self._tenure = tenure
        self._store = tenure.files.log_store
        self._paths = tenure.files.paths
        self._runtime = tenure.files.runtime
        self._next_id = next_id
        self._interval = options.flush_interval
        self._max_bytes = options.l0_sst_size_bytes
        self._codec = options.sst.codec
        self._advanced = advanced
        self._failed = failed
        self._is_current = is_current
        self._look = look
        self._looking = asyncio.Lock()
        self._max_parallel = options.max_parallel_writes
        self._current: WalFile | None = None
        self._under_way: dict[int, WalFile] = {}
        self._stored_ahead: dict[int, WalFile] = {}
        self._wake = asyncio.Event()
        self._moved = asyncio.Event()
        self._closing = False
        self._held_up: set[int] = set()
        self._error: Error | None = None
        self.outage = Outage(self._runtime, "writing the log")
        self._loop = Loop("writing the log", self._runtime)
        self.files_stored = 0
        self.bytes_stored = 0
        self.last_stored_id = next_id - 1
        self.durable_seq = durable_seq
        self._task = asyncio.ensure_future(self._run())

    def append(self, rows: Sequence[Row]) -> WalFile:
        """Add the rows of one commit, which never spans two files."""
        if self._error is not None:
            raise self._error
        file = self._current
        if file is None:
            file = self._current = WalFile(self._runtime.monotonic())
            self._wake.set()
        file.rows += rows
        file.last_seq = rows[-1].seq
        file.bytes += sum(len(row.key) + len(row.value) + 32 for row in rows)
        if file.bytes >= self._max_bytes:
            self._wake.set()
        return file

    def want(self, file: WalFile) -> None:
        """Somebody waits for this file: it is written as soon as its turn has come, unless flushing is left to the user."""
        if self._interval is not None and not file.wanted:
            file.wanted = True
            self._wake.set()

    def hurry(self) -> None:
        """What has gathered is written as soon as its turn has come, whoever waits for it."""
        if self._current is not None and not self._current.wanted:
            self._current.wanted = True
            self._wake.set()

    @property
    def memory_bytes(self) -> int:
        """Of the rows that are not stored yet."""
        gathering = 0 if self._current is None else self._current.memory_bytes
        return gathering + sum(file.memory_bytes for file in self._under_way.values())

    async def flush(self) -> None:
        """Wait until everything appended so far is stored."""
        self.hurry()
        for file in self._waiting:
            await asyncio.shield(file.stored)
        if self._error is not None:
            raise self._error

    @property
    def _waiting(self) -> list[WalFile]:
        """Files that are not acknowledged yet, one of which may be gathering rows."""
        current = [] if self._current is None else [self._current]
        return [*self._under_way.values(), *self._stored_ahead.values(), *current]

    async def settle(self) -> None:
        """Begin no further file, and wait for those under way. Then it is known which rows are durable. A file that the
        store has refused once, or that takes longer than ``SETTLE_SECONDS``, is not waited for."""
        self._closing = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while self._error is None and self._under_way.keys() - self._held_up:
                    self._moved.clear()
                    await self._moved.wait()

    async def close(self) -> None:
        """Stop. What is not stored by now never will be; call :meth:`flush` before."""
        self._closing = True
        self._wake.set()
        if not isinstance(self._error, DatabaseDeleted):
            self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def fail(self, error: Error) -> None:
        """Nothing more may be written: everything that waits fails with ``error``."""
        if self._error is None:
            self._error = error
            for file in self._waiting:
                file.fail(error)
            self._moved.set()
            self._task.cancel()

    async def _run(self) -> None:
        writes: dict[asyncio.Task[None], None] = {}  # in order, so that a run can be repeated
        try:
            with self._loop.running():
                while True:
                    await self._until_due()
                    await self._until_in_window()
                    file = self._current
                    if file is None or self._closing:
                        continue
                    self._current = None
                    id, self._next_id = self._next_id, self._next_id + 1
                    self._under_way[id] = file
                    write = asyncio.ensure_future(self._write(id, file))
                    writes[write] = None
                    write.add_done_callback(writes.pop)
        except Exception as defect:
            self._break_down(defect)
        finally:
            if isinstance(self._error, DatabaseDeleted):
                # Each takes back what it has stored. A request that is cancelled may still be carried out, so none is.
                await asyncio.gather(*writes, return_exceptions=True)
            for write in writes:
                write.cancel()

    def _break_down(self, defect: Exception) -> None:
        log.error("writing the log failed", exc_info=defect)
        self._failed(ClosedError(f"the WAL writer broke down: {defect!r}", CloseReason.PANIC))

    async def _until_due(self) -> None:
        while True:
            self._wake.clear()
            file = None if self._closing else self._current
            wait: float | None = None
            if file is not None:
                if file.wanted or file.bytes >= self._max_bytes:
                    return
                if self._interval is not None:
                    wait = file.opened + self._interval - self._runtime.monotonic()
                    if wait <= 0:
                        return
            try:
                await self._loop.rest(asyncio.wait_for(self._wake.wait(), wait), wait)
            except TimeoutError:
                return

    async def _until_in_window(self) -> None:
        """Ids stay within ``max_parallel`` of the first that is not stored, however many behind it are: a new writer takes
        a longer gap for a lost file, and readers see nothing of what is behind a gap."""
        while self._next_id - self.last_stored_id > self._max_parallel:
            self._moved.clear()
            await self._moved.wait()

    async def _write(self, id: int, file: WalFile) -> None:
        with self._loop.running():
            try:
                data = await self._encode(file)
                file.rows = []
                await self._until_current(id)
                try:
                    await self._store_file(id, data)
                    await self._acknowledge(id, file)
                except DatabaseDeleted:
                    await self._take_back(id, data)
                    raise
            except Error as error:
                self._failed(error)
            except Exception as defect:
                self._break_down(defect)

    async def _until_current(self, id: int) -> None:
        """Look at the manifest for the file ``id``, unless that was done a moment ago."""

        async def look() -> None:
            try:
                await self._look()
            except Error:
                self._hold_up(id)
                raise

        while not self._is_current():
            async with self._looking:
                if not self._is_current():
                    await self.outage.outlast(look)
                if not self._is_current():
                    self._hold_up(id)
                    self.outage.bear(StoreUnavailable(TOO_SLOW))

    def _hold_up(self, id: int) -> None:
        """The store has refused something that this file needs: a writer that closes does not wait for it."""
        self._held_up.add(id)
        self._moved.set()

    async def _store_file(self, id: int, data: bytes) -> None:
        key = self._paths.wal(id)
        unsure = False

        async def put() -> None:
            nonlocal unsure
            if isinstance(self._error, DatabaseDeleted):
                raise self._error
            try:
                await self._store.put(key, data, self._tenure.create)
            except Conflict:
                raise
            except Error as trouble:
                unsure = unsure or (isinstance(trouble, StoreUnavailable) and trouble.unknown_outcome)
                self._hold_up(id)
                raise

        try:
            await self.outage.outlast(put)
        except Conflict:
            # An attempt whose outcome nobody could tell may have been carried out after all. Nobody stops writing for want
            # of an answer about what became of his file.
            if not (unsure and await self.outage.outlast(lambda: self._holds(key, data))):
                raise await self.outage.outlast(lambda: self._tenure.taken(id)) from None
        self.files_stored += 1
        self.bytes_stored += len(data)

    async def _take_back(self, id: int, data: bytes) -> None:
        """Where the database was, nothing of it may appear again."""
        key = self._paths.wal(id)
        if await self._holds(key, data):
            await self._store.delete([key])

    async def _holds(self, key: str, data: bytes) -> bool:
        try:
            return bytes((await self._store.get(key)).data) == data
        except NotFound:
            return False

    async def _encode(self, file: WalFile) -> bytes:
        if len(file.rows) < INLINE_ROWS and file.bytes < INLINE_BYTES:
            return _encode(file.rows, self._codec)
        return await self._runtime.run(_encode, file.rows, self._codec)

    async def _acknowledge(self, id: int, file: WalFile) -> None:
        """This file, and those behind it that are stored already, if all before it are."""
        await self._until_current(id)
        # From here on nothing is awaited, so that what was just proved still holds when the rows are acknowledged.
        if self._error is not None:
            raise self._error
        del self._under_way[id]
        self._held_up.discard(id)
        self._stored_ahead[id] = file
        while (done := self._stored_ahead.pop(self.last_stored_id + 1, None)) is not None:
            self.last_stored_id += 1
            self.durable_seq = max(self.durable_seq, done.last_seq)
            if not done.stored.done():
                done.stored.set_result(None)
        self._moved.set()
        self._advanced()


def _encode(rows: list[Row], codec: Codec) -> bytes:
    return build_wal_sst(Rows.of(rows), codec).tobytes()
