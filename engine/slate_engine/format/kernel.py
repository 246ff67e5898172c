"""How a numeric kernel is compiled: without the GIL, once per machine.

The compiled code is cached on disk beside the source (or under ``NUMBA_CACHE_DIR``), so a process with a warm cache loads
it in milliseconds and never compiles.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

_kernels: list[Any] = []


def kernel(function: F) -> F:
    """Compile ``function`` in nopython mode. It sees arrays and numbers only, and may run beside other threads."""
    compiled = numba.njit(nogil=True, cache=True)(function)
    _kernels.append(compiled)
    return cast(F, compiled)


def compilations() -> int:
    """How many kernels this process had to compile because the cache did not hold them."""
    return sum(sum(compiled.stats.cache_misses.values()) for compiled in _kernels)
