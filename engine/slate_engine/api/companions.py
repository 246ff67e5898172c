"""What a database runs beside its writer, if it is told to: a compactor and a garbage collector.

Neither is needed for what was written to be safe, so neither takes the writer down with it. A compactor that has lost its
epoch to another one ends and leaves the work to that one, while the original closes the whole database then; RFC-0001 has
writers and compactors fence each other's likes only, and a writer that goes on writing harms nobody. Anything else that
stops a companion is a defect, is logged as one, and is answered by starting it again after a while.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from slate_engine.errors import DatabaseDeleted, Error, Fenced
from slate_engine.gc.loop import collect_forever
from slate_engine.gc.options import GcOptions
from slate_engine.lsm.compaction.compactor import EmbeddedCompactor
from slate_engine.lsm.compaction.options import CompactorOptions
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer

log = logging.getLogger(__name__)

PAUSE = 30.0
"""How long a companion that broke down is left alone, in seconds."""


class Companions:
    """Run from :meth:`start` to :meth:`close`, or until the writer has ended."""

    def __init__(
        self,
        writer: Writer,
        files: DatabaseFiles,
        compactor: CompactorOptions | None,
        collector: GcOptions | None,
    ) -> None:
        self._writer = writer
        self._files = files
        self._collector_options = collector
        self._compactor: EmbeddedCompactor | None = None
        self._compactor_ended: asyncio.Future[Error] | None = None
        if compactor is not None:
            self._compactor = EmbeddedCompactor(files, compactor, failed=self._ended, committed=writer.observe)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin. The compactor has its epoch when this returns."""
        if self._compactor is not None:
            await self._start(self._compactor)
            self._tasks.append(asyncio.ensure_future(self._keep_compacting(self._compactor)))
            self._tasks.append(asyncio.ensure_future(self._poke(self._compactor)))
        if self._collector_options is not None:
            self._tasks.append(asyncio.ensure_future(self._keep_collecting(self._collector_options)))
        if self._tasks:
            self._tasks.append(asyncio.ensure_future(self._end_with_writer()))

    async def close(self) -> None:
        """End. A job that is not finished is left, with what it has so far, to the next compactor."""
        await _cancelled(self._tasks)
        await self._close_compactor()

    # --- compaction ----------------------------------------------------------------------------------------------

    async def _start(self, compactor: EmbeddedCompactor) -> None:
        self._compactor_ended = asyncio.get_running_loop().create_future()
        await compactor.start()

    def _ended(self, error: Error) -> None:
        assert self._compactor_ended is not None
        if not self._compactor_ended.done():
            self._compactor_ended.set_result(error)

    async def _keep_compacting(self, compactor: EmbeddedCompactor) -> None:
        while True:
            assert self._compactor_ended is not None
            error = await self._compactor_ended
            if isinstance(error, DatabaseDeleted):
                self._writer.stop(error)
                return
            if isinstance(error, Fenced):
                log.warning("another compactor has taken over, and this database leaves compaction to it: %s", error)
                return
            log.error("the compactor of this database has ended, and is started again in %g s: %s", PAUSE, error)
            await self._files.runtime.sleep(PAUSE)
            try:
                await self._start(compactor)
            except Error as again:
                self._ended(again)

    async def _poke(self, compactor: EmbeddedCompactor) -> None:
        """Have the compactor look whenever level 0 has grown, so that nobody waits for its next poll."""
        writer = self._writer
        while True:
            await writer.until(partial(_differs, writer, seen := writer.l0_count))
            if writer.l0_count > seen:
                compactor.poke()

    async def _close_compactor(self) -> None:
        if self._compactor is not None:
            await self._compactor.close()

    # --- garbage -------------------------------------------------------------------------------------------------

    async def _keep_collecting(self, options: GcOptions) -> None:
        while True:
            try:
                await collect_forever(self._files, options)
                return
            except Exception:
                log.exception("the garbage collector of this database broke down, and starts again in %g s", PAUSE)
            await self._files.runtime.sleep(PAUSE)

    # --- the end -------------------------------------------------------------------------------------------------

    async def _end_with_writer(self) -> None:
        """A writer that was fenced has a successor, whose companions do the work from now on."""
        await self._writer.until(lambda: self._writer.error is not None)
        await _cancelled([task for task in self._tasks if task is not asyncio.current_task()])
        await self._close_compactor()


def _differs(writer: Writer, l0_count: int) -> bool:
    return writer.l0_count != l0_count


async def _cancelled(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
