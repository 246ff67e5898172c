"""Memory that was freed, given back to the operating system.

The C library keeps what a thread has freed for the next one that asks in the same thread. Flushes run in any thread of a
pool, each on buffers as large as a memtable, so that a process would come to hold them several times over.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache

WORTH_IT = 16 << 20
"""Giving back takes some milliseconds: it is for work on at least so many bytes."""


_M_ARENA_MAX, _M_MMAP_THRESHOLD = -8, -3
ARENAS = 2
"""As many as there are threads that allocate much at the same time: the event loop's, and a worker's."""
BY_ITSELF = 4 << 20
"""A block of at least so many bytes comes from the operating system, goes back to it when it is freed, and moves without
being copied when it grows. The C library would raise this limit to 32 MB by and by."""


@cache
def share_arenas() -> None:
    """Let all threads of this process allocate from a few common heaps, instead of one for each, and large blocks from none.
    Called before the work begins: a heap that exists stays."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)
        mallopt(_M_MMAP_THRESHOLD, BY_ITSELF)


def give_back(worked_on: int) -> None:
    """Called after work on so many bytes is over."""
    if worked_on >= WORTH_IT:
        _trim()(0)


@cache
def _trim() -> Callable[[int], object]:
    """Not every C library has a way to do this; where there is none, nothing is done."""
    return getattr(ctypes.CDLL(None), "malloc_trim", lambda padding: None)
