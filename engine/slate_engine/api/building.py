"""What the builders of the API share: each builds once."""

from __future__ import annotations

from typing import TypeVar

from slate_engine.errors import InvalidError

T = TypeVar("T")


class Builder:
    """A builder is used up by ``build``, even by one that fails."""

    _consumed = False

    def _check_unused(self) -> None:
        if self._consumed:
            raise InvalidError("builder has already been consumed")

    def _consume(self) -> None:
        self._check_unused()
        self._consumed = True


def instance(value: object, cls: type[T], what: str) -> T:
    """``value``, which has to be an instance of ``cls``."""
    if not isinstance(value, cls):
        raise TypeError(f"{what} must be {cls.__name__}, not {type(value).__name__!r}")
    return value


class Unmade:
    """Base of classes whose instances come from elsewhere: a builder, a database."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise ValueError(f"{type(self).__name__} has no default constructor; it comes from a builder or a database")
