"""A process of its own that writes to a local store, run by :mod:`tests.store.test_files`.

``compete``: at each line on its standard input, writes the object that the line names, and says ``won`` or ``lost``.
``overwrite``: writes until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from slate_engine.runtime import SystemRuntime
from slate_engine.store.files import FileStore
from slate_engine.store.protocol import CREATE, Conflict, PutMode, Update


async def compete(store: FileStore, name: str) -> None:
    print("ready", flush=True)
    for line in sys.stdin:
        key, etag = line.split()
        mode: PutMode = CREATE if etag == "-" else Update(etag)
        try:
            await store.put(key, name.encode(), mode)
            print("won", flush=True)
        except Conflict:
            print("lost", flush=True)


async def overwrite(store: FileStore) -> None:
    for number in range(1_000_000):
        await store.put("k", bytes([number % 256]) * (100_000 + number % 7))
        await store.put(f"new/{number}", bytes([number % 256]) * 100_000, CREATE)


if __name__ == "__main__":
    folder = FileStore(Path(sys.argv[2]), SystemRuntime(threads=2))
    asyncio.run(compete(folder, sys.argv[3]) if sys.argv[1] == "compete" else overwrite(folder))
