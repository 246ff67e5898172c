"""A writer of ours that stores several WAL files at once, and dies while one of them is missing.

``python -m tests.interop.doomed_parallel_writer FOLDER COMMITS HOW`` prints the key of every commit that was acknowledged,
and ends by SIGKILL. The file after the last acknowledged commit is never stored; those behind it are. If ``HOW`` is
"flush", level 0 has all that was acknowledged.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from slate_engine.lsm.commit import Change
from slate_engine.lsm.committed import Commit
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.lsm.writer import Writer
from slate_engine.lsm.writer_options import WriterOptions
from slate_engine.runtime import SystemRuntime
from slate_engine.store.files import FileStore
from slate_engine.store.protocol import OVERWRITE, Buffer, PutMode

PARALLEL = 4
RUNTIME = SystemRuntime()


class Gap(FileStore):
    """Stores everything but one file."""

    missing = "nothing"

    async def put(self, key: str, data: Buffer, mode: PutMode = OVERWRITE) -> str:
        if self.missing in key:
            await asyncio.Event().wait()
        return await super().put(key, data, mode)


async def tell(key: bytes, commit: Commit) -> None:
    await commit.durable()
    print(key.decode(), flush=True)


async def main(folder: str, commits: int, flush: bool) -> None:
    store = Gap(folder, RUNTIME)
    options = WriterOptions(max_parallel_writes=PARALLEL, flush_interval=0.001)
    writer = await Writer.open(DatabaseFiles(store, "db", RUNTIME), options)
    for number in range(commits):
        key = b"early%d" % number
        await tell(key, await writer.write([Change(key, b"1")]))
    if flush:
        await writer.flush_memtable()
    store.missing = f"{writer.last_wal_id + 1:020d}.sst"
    tellers = []
    for number in range(PARALLEL):
        key = b"late%d" % number
        tellers.append(asyncio.ensure_future(tell(key, await writer.write([Change(key, b"1")]))))
        await asyncio.sleep(0.1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3] == "flush"))
