"""Waiting for a time to pass, or for somebody to ring."""

from __future__ import annotations

import asyncio

from slate_engine.lsm.signal import Signal
from slate_engine.runtime import Runtime


class Bell:
    """A ring that comes while nobody waits is not lost: the next one who waits hears it."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._signal = Signal()
        self._rung = False

    def ring(self) -> None:
        self._rung = True
        self._signal.tell()

    async def wait(self, seconds: float) -> bool:
        """Whether somebody rang before the time was over."""
        sleeping = asyncio.ensure_future(self._runtime.sleep(seconds))
        listening = asyncio.ensure_future(self._signal.until(lambda: self._rung))
        try:
            await asyncio.wait([sleeping, listening], return_when=asyncio.FIRST_COMPLETED)
            return self._rung
        finally:
            sleeping.cancel()
            listening.cancel()
            self._rung = False
