"""Errors of the engine in the classes, and with the first words, by which the original reports them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from slate_engine.errors import DataError
from slate_engine.state.checkpoints import CheckpointMissing, NotInitialized
from slate_engine.state.commit import NothingStored


@contextmanager
def as_the_wheel_has_them(path: str, store: str) -> Iterator[None]:
    """What is wrong with the database at ``path`` is an error of its data; the engine itself counts it as an error of who
    asked for it."""
    try:
        yield
    except NothingStored:
        raise no_database(path, store) from None
    except CheckpointMissing as missing:
        raise DataError(f"Data error: checkpoint missing. checkpoint_id=`{missing.id}`: {missing}") from missing
    except NotInitialized as reason:
        raise DataError(f"Data error: invalid DB state error: {reason}") from reason


def no_database(path: str, store: str) -> DataError:
    return DataError(
        "Data error: failed to find latest transactional object (e.g. manifest) version: there is no database at "
        f"{path!r} in {store}; check the path, or create the database by opening it for writing"
    )
