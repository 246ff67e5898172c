"""The engine in a simulated process: a live writer whose every word goes into the ledger, and readers of what is durable."""

from __future__ import annotations

import random
from collections.abc import Sequence

from slate_engine.errors import CloseReason, DatabaseDeleted, Error, InvalidError
from slate_engine.format.columns import MERGE, TOMBSTONE
from slate_engine.lsm.commit import Change
from slate_engine.lsm.committed import Commit
from slate_engine.lsm.reader import Reader, ReaderOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.snapshot import Snapshot
from slate_engine.lsm.transactions import Transaction
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.state.manifest import Manifest
from tests.simulation.faults import Role
from tests.simulation.ledger import Attempt, Fate, Ledger, Seen, Tenure, state_of
from tests.simulation.memo import decode_manifest
from tests.simulation.world import Process, World

PATH = "db"
WATCHING = ReaderOptions(poll_interval=20.0, checkpoint_lifetime=50.0)
FEW_KEYS = 12
"""Few, so that most changes concern a key that has a history."""


class Join:
    """The merge operator of simulated databases: the order of operands shows in the result."""

    def merge(self, key: bytes, existing_value: bytes | None, operand: bytes) -> bytes:
        return (existing_value or b"") + operand


JOIN = Join()


def files_of(process: Process) -> DatabaseFiles:
    return DatabaseFiles(process.store, PATH, process.runtime, JOIN)


async def read_all(snapshot: Snapshot) -> Seen:
    return Seen.of([row async for rows in snapshot.scan() for row in rows.tuples()])


def drawn_changes(chance: random.Random, tag: str, *, keys: int = FEW_KEYS, large: int = 0) -> list[Change]:
    """The changes of one commit, with values that no other commit writes."""
    changes = []
    for number in range(chance.randint(1, 4)):
        key = b"k%02d" % chance.randrange(keys)
        value = f"{tag}.{number};".encode() + b"x" * chance.randrange(large + 1)
        flags = chance.choice([0, 0, 0, MERGE, TOMBSTONE])
        changes.append(Change(key, b"" if flags & TOMBSTONE else value, flags))
    return changes


class Session:
    """A writer in ``process``; made by :meth:`open`."""

    def __init__(self, process: Process, ledger: Ledger, tenure: Tenure, writer: Writer, has_wal: bool) -> None:
        self.process = process
        self.ledger = ledger
        self.tenure = tenure
        self.writer = writer
        self._has_wal = has_wal
        self._reads = 0

    @classmethod
    async def open(cls, process: Process, ledger: Ledger, options: WriterOptions) -> Session:
        """Take the database over; fails unless all is there that has to be."""
        tenure = ledger.tenure(process.name, parallel=options.max_parallel_writes > 1)
        process.acts_as(Role.WRITER)
        writer = await Writer.open(files_of(process), options)
        ledger.opened(tenure, writer.epoch, await read_all(writer.snapshot()))
        return cls(process, ledger, tenure, writer, options.wal_enabled)

    async def take(self, changes: Sequence[Change], transaction: Transaction | None = None) -> tuple[Attempt, Commit]:
        """Have the writer take a commit, without waiting for it to be durable."""
        attempt = self.ledger.asked(self.tenure, changes)
        try:
            commit = await self.writer.write([*changes, Change(attempt.name, b"")], transaction=transaction)
        except Error:
            self.ledger.refused(attempt)
            raise
        self.ledger.taken(attempt, commit.seq)
        return attempt, commit

    async def settle(self, attempt: Attempt, commit: Commit) -> None:
        """Wait until it is durable. Without a WAL nothing is, until somebody flushes."""
        try:
            if not self._has_wal:
                await self.writer.flush_memtable()
            await commit.durable()
        except Error:
            self.ledger.unsure(attempt)
            raise
        self.ledger.acked(attempt)

    async def write(self, changes: Sequence[Change]) -> None:
        await self.settle(*await self.take(changes))

    async def flush(self, *, memtable: bool = False) -> None:
        """What was taken before the call is durable after it, which is as good as an acknowledgement."""
        taken = [attempt for attempt in self.tenure.taken if attempt.fate is Fate.TAKEN]
        await (self.writer.flush_memtable() if memtable else self.writer.flush_wal())
        for attempt in taken:
            self.ledger.acked(attempt)

    async def close(self, *, flush: bool = True) -> None:
        taken = [attempt for attempt in self.tenure.taken if attempt.fate is Fate.TAKEN]
        await self.writer.close(flush_wal=flush)
        self.process.retires(Role.WRITER)
        for attempt in taken:
            (self.ledger.acked if flush else self.ledger.unsure)(attempt)

    async def read(self) -> None:
        """What the writer shows is what it found and what it took since; of that, what it calls durable will stay."""
        self._reads += 1
        name = f"{self.process.name} of epoch {self.tenure.epoch}, for the {self._reads}. time,"
        taken = frozenset(attempt.id for attempt in self.tenure.taken)
        everything, durable = self.writer.snapshot(), self.writer.snapshot(durable_only=True)
        assert self.tenure.found is not None
        seen = self.ledger.judge(self.process.name, await read_all(everything))
        assert seen == self.tenure.found | taken, f"{self.process.name} does not show what it has"
        self.ledger.saw(name, await read_all(durable))

    async def look_up(self, key: bytes) -> None:
        """A point read is linearizable: it gives what stood there at some moment between its beginning and its end."""
        assert self.tenure.found is not None
        before = len(self.tenure.taken)
        row = await self.writer.snapshot().get(key)
        found = None if row is None else (bytes(row.value), row.seq)
        base = [self.ledger.attempts[id - 1] for id in self.tenure.found]
        for upto in range(before, len(self.tenure.taken) + 1):
            commits = sorted([*base, *self.tenure.taken[:upto]], key=lambda attempt: attempt.seq)
            if state_of(commits).get(key) == found:
                return
        raise AssertionError(f"{self.process.name} reads {key!r} as {found}, which it never was meanwhile")

    def check_end(self, world: World) -> None:
        """A writer stops because it is closed or because another has taken over, and for no other reason."""
        error = self.writer.error
        if error is None or error.reason is CloseReason.CLEAN:
            return
        if isinstance(error, DatabaseDeleted):
            assert Role.ADMINISTRATOR in world.acting, f"{self.process.name} stopped: {error.message}"
            return
        newest = newest_epoch(world)
        if "is given up to id" in error.message:
            # Who takes longer between a look at the manifests and a look at their boundary than the patience of
            # NumberedObjects.latest finds them out of step, and stops for that. He has been fenced as well.
            assert newest > self.writer.epoch, f"{self.process.name} stopped: {error.message}"
            return
        assert error.reason is CloseReason.FENCED, f"{self.process.name} stopped: {error.message}"
        assert newest > self.writer.epoch, f"{self.process.name} was told to be fenced, by nobody: {error.message}"


class Follower:
    """Reads the newest durable state anew, again and again."""

    def __init__(self, process: Process, ledger: Ledger) -> None:
        self._name = f"the reader {process.name}"
        self._files = files_of(process)
        self._ledger = ledger
        process.acts_as(Role.READER)

    async def look(self) -> None:
        """Read everything: all is there that was acknowledged by now."""
        must_have = self._ledger.acknowledged
        try:
            snapshot = await self._files.latest()
        except InvalidError:
            assert not must_have, "there is no database, and something was acknowledged"
            return
        self._ledger.saw(self._name, await read_all(snapshot), must_have)


class Watcher:
    """The same by the engine's following reader, which lives on and keeps what it knows."""

    def __init__(self, process: Process, ledger: Ledger, *, managed: bool) -> None:
        self._name = f"the reader {process.name}"
        self._files = files_of(process)
        self._ledger = ledger
        self._managed = managed
        self._reader: Reader | None = None
        process.acts_as(Role.READER)
        if managed:
            process.world.lease = WATCHING.checkpoint_lifetime

    async def look(self) -> None:
        must_have = self._ledger.acknowledged
        if self._reader is None:
            try:
                self._reader = await (Reader.managed if self._managed else Reader.latest)(self._files, WATCHING)
            except InvalidError:
                assert not must_have, "there is no database, and something was acknowledged"
                return
        else:
            await self._reader.refresh()
        self._ledger.saw(self._name, await read_all(self._reader.snapshot()), must_have)


def newest_epoch(world: World) -> int:
    """The writer epoch in the newest manifest of the bucket; 0 if there is none."""
    if not any(key.startswith(f"{PATH}/manifest/") for key in world.objects):
        return 0
    return newest_manifest(world).writer_epoch


def newest_manifest(world: World) -> Manifest:
    objects = world.objects
    newest = max(key for key in objects if key.startswith(f"{PATH}/manifest/"))
    return decode_manifest(objects[newest], object=newest)
