"""Waiting for a change of state."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Signal:
    """Tells everybody who waits that something has changed; each looks for himself whether it is what he waits for."""

    def __init__(self) -> None:
        self._changed: asyncio.Future[None] | None = None

    def tell(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)
        self._changed = None

    async def until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            if self._changed is None:
                self._changed = asyncio.get_running_loop().create_future()
            # Several wait for one future; a waiter that is cancelled must not cancel it for the others.
            await asyncio.shield(self._changed)
