"""The two shapes that values of the API take.

A record is a set of named fields. A variant is one of several shapes in a family: ``Ttl.DEFAULT()``,
``Ttl.EXPIRE_AFTER_MILLIS(5)``, ``PrefixTarget.POINT(key)``. The wheel writes a family as a class whose variants are at once
its attributes and its subclasses. A class body cannot contain its own subclass, so each variant stands below its family
and is hung onto it; ``__qualname__`` gives it the name by which users (and pickle) know it.
"""

from __future__ import annotations

from typing import Generic, SupportsIndex, TypeVar

T = TypeVar("T")


class Record:
    """Base of the keyword-only dataclasses. ``str`` of a record is the wheel's; ``repr`` quotes what it shows, so that one
    can paste it back.

    Records are mutable, as the wheel's are, and for a second reason: a frozen dataclass takes twice as long to make, and
    a scan makes one for every row.
    """

    def __str__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in vars(self).items())
        return f"{type(self).__name__}({shown})"


class Variant:
    """What all families share. The family itself is abstract: only its variants have instances."""

    def __init__(self) -> None:
        choices = ", ".join(variant.__qualname__ for variant in type(self).__subclasses__())
        raise RuntimeError(f"{type(self).__qualname__} cannot be instantiated directly; choose one of {choices}")

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


class Unit(Variant):
    """A variant that carries nothing."""

    def __init__(self) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) if isinstance(other, Variant) else NotImplemented

    def __hash__(self) -> int:
        return hash(type(self))


class Single(Variant, Generic[T]):
    """A variant that carries one value without a name: ``variant[0]``."""

    def __init__(self, *values: T) -> None:
        if len(values) != 1:
            raise TypeError(f"{type(self).__qualname__} takes 1 argument, found {len(values)}")
        self._values = values

    def __getitem__(self, index: SupportsIndex) -> T:
        return self._values[index]

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}{self._values!r}"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Single) and type(self) is type(other):
            return self._values == other._values
        return False if isinstance(other, Variant) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._values))
