"""Making thousands of objects at once, without Python's collector looking at them again and again meanwhile."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

MANY = 100
"""Fewer objects than this are made before the collector would wake."""


@contextmanager
def undisturbed(count: int) -> Iterator[None]:
    """While so many objects are made, which are no garbage, the collector waits. What is inside must not await: the
    collector is everybody's."""
    if count < MANY or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
