"""Something that is to be done now and then while a handle is open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from slate_engine.runtime import Runtime

INTERVAL = 1.0
"""In seconds."""


class Upkeep:
    """Calls ``work`` at once, then every second, and for a last time when it is stopped."""

    def __init__(self, work: Callable[[], None], runtime: Runtime) -> None:
        self.now = work
        self._runtime = runtime
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self.now()

    async def _run(self) -> None:
        while True:
            self.now()
            await self._runtime.sleep(INTERVAL)
