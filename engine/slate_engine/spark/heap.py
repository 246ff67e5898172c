"""How a Python worker of Spark allocates: it reads part after part of the same size, so it keeps its memory for the next.

The C library would hand every buffer of a few megabytes back to the operating system, which clears it anew page by page:
a third of the time of a read."""

from __future__ import annotations

import ctypes
from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
LARGEST_KEPT = 32 << 20
"""The C library takes no higher limit."""


@cache
def keep_memory(bytes: int) -> None:
    """Let this process keep so much of what it has freed. Called before the work begins: a heap that exists stays."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_MMAP_THRESHOLD, LARGEST_KEPT)
        mallopt(_M_TRIM_THRESHOLD, min(bytes, 2**31 - 1))
