"""A writer of the original that dies without a word: started as a process of its own, which kills itself.

``python -m tests.interop.doomed_writer FOLDER PATH COMMITS`` writes, reports every commit that is durable on its standard
output, and ends by SIGKILL while more is on its way.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tests.interop import original
from tests.interop.history import Kind, Operation
from tests.interop.original import Original
from tests.interop.style import Style


def operations(number: int) -> list[Operation]:
    """What commit ``number`` of a doomed writer is."""
    return [
        Operation(Kind.PUT, b"key%03d" % (number % 40), b"value %d" % number),
        Operation(Kind.MERGE, b"log", b"%d;" % number),
        Operation(Kind.DELETE, b"key%03d" % ((number * 7 + 3) % 40)),
    ]


async def main(folder: str, path: str, commits: int) -> None:
    async with Original(Path(folder), Style()).writer(path, l0_sst_size_bytes=4096) as db:
        for number in range(commits):
            await original.write(db, operations(number))
            if number % 5 == 0:
                await original.flush_wal(db)
                print(number, flush=True)
            if number == commits // 2:
                await original.flush(db)
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
