"""One line of the engine, written otherwise: how most planted bugs are made.

The function is compiled again from its own source with that line changed, so everything else in it is as it is, and remains
so when it changes. A line that is not there any more is an error, for then the bug is not planted.
"""

from __future__ import annotations
import __future__

import inspect
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def edited(owner: Any, name: str, before: str, after: str) -> Iterator[None]:
    """The function ``name`` of a class or a module with ``after`` where it says ``before``, once. It stays the same function
    with other code, so that everybody has it who has imported it."""
    found = inspect.getattr_static(owner, name)
    function = getattr(found, "__func__", found)
    source = textwrap.dedent(inspect.getsource(function))
    times = source.count(before)
    if times != 1:
        raise LookupError(f"{owner.__name__}.{name} says {before!r} {times} times, and not once: plant the bug anew")
    code = compile(source.replace(before, after), f"<{name}>", "exec", flags=__future__.annotations.compiler_flag)
    made: dict[str, Any] = {}
    exec(code, sys.modules[function.__module__].__dict__, made)
    right = function.__code__
    function.__code__ = getattr(made[name], "__func__", made[name]).__code__
    try:
        yield
    finally:
        function.__code__ = right
