"""What is said when an address cannot be listened at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slate_engine.errors import InvalidError


@contextmanager
def listening(host: str, port: int, name: str) -> Iterator[None]:
    """Around the call that begins to listen; ``name`` is the setting that would change the port."""
    try:
        yield
    except OSError as error:
        raise InvalidError(
            f"{host}:{port} cannot be listened at ({error.strerror or error}); end who does, or choose another {name}"
        ) from None
