"""How the fields of a settings dataclass stand in JSON: their keys, their types, and what an absent one means.

A field is declared with its default and its kind, ``l0_max_ssts: int = unsigned(8)``; the kind knows how to read the JSON
value and how to write it. Durations are milliseconds in Python and text in JSON, and their attribute ends in ``_ms``
where the key does not.

The original refuses JSON that lacks a field, except for fields with a fallback of their own; :data:`REQUIRED` and
``missing`` say which. What cannot be read is an ``Error.Invalid`` with the dotted key in it.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeAlias, TypeVar, cast

from slate_engine.api.durations import format_duration, parse_duration
from slate_engine.errors import InvalidError

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
T = TypeVar("T")
E = TypeVar("E", bound=enum.Enum)

REQUIRED: Any = object()
"""In place of a fallback: the key must be there."""


@dataclass(frozen=True)
class Kind:
    """One kind of field. ``read`` raises ``ValueError`` with what was expected; ``unknown`` collects ignored keys."""

    read: Callable[[Json, str, list[str]], object]
    write: Callable[[Any], Json]
    missing: object = REQUIRED
    optional: bool = False
    omitted_when_none: bool = False
    suffix: str = ""


def unsigned(default: int, *, bits: int = 64) -> int:
    """A whole number that is not negative."""
    return _declare(default, Kind(_unsigned(bits), _same))


def optional_unsigned(default: int | None = None, *, bits: int = 64, omitted_when_none: bool = False) -> int | None:
    """A number, or nothing. ``omitted_when_none`` keeps the key out of the JSON while there is nothing."""
    kind = Kind(_unsigned(bits), _same, missing=None, optional=True, omitted_when_none=omitted_when_none)
    return _declare(default, kind)


def flag(default: bool, *, missing: bool = REQUIRED) -> bool:
    """True or false."""
    return _declare(default, Kind(_flag, _same, missing))


def duration(default_ms: int, *, missing: int = REQUIRED) -> int:
    """A length of time."""
    return _declare(default_ms, Kind(_duration, format_duration, missing, suffix="_ms"))


def optional_duration(
    default_ms: int | None, *, missing: int | None = REQUIRED, omitted_when_none: bool = False
) -> int | None:
    """A length of time, or nothing."""
    kind = Kind(_duration, format_duration, missing, optional=True, omitted_when_none=omitted_when_none, suffix="_ms")
    return _declare(default_ms, kind)


def optional_text(default: str | None = None) -> str | None:
    """A text, or nothing."""
    return _declare(default, Kind(_text, _same, missing=None, optional=True))


def choice(default: E, spellings: Mapping[str, E]) -> E:
    """One of several names; the first spelling of each is the one that is written."""
    return _declare(default, Kind(_choice(spellings), _spelling(spellings), missing=default))


def optional_choice(spellings: Mapping[str, E]) -> E | None:
    """One of several names, or nothing."""
    return _declare(None, Kind(_choice(spellings), _spelling(spellings), missing=None, optional=True))


def texts() -> Mapping[str, str]:
    """Names and texts of the user's own making."""
    kind = Kind(_texts, lambda value: dict(value), missing={})
    return cast("Mapping[str, str]", field(default_factory=dict, metadata={"kind": kind}))


def table(default: T) -> T:
    """Settings within settings."""
    return _declare(default, Kind(_table(type(default)), write_table))


def optional_table(default: T, *, missing: T | None = None) -> T | None:
    """Settings within settings, or nothing: then what they govern is off."""
    return _declare(default, Kind(_table(type(default)), write_table, missing, optional=True))


def read_table(cls: type[T], value: Json, path: str, unknown: list[str]) -> T:
    """An instance of a settings dataclass. ``path`` is the dotted key of the table, empty for the outermost."""
    if not isinstance(value, dict):
        raise InvalidError(f"{path or 'settings'} must be an object, not {_shown(value)}")
    members = {entry.name.removesuffix(_kind(entry).suffix): entry for entry in fields(cast(Any, cls))}
    unknown.extend(_join(path, key) for key in value if key not in members)
    repeated = [key for key in getattr(value, "repeated", ()) if key in members]
    if repeated:
        raise InvalidError(f"{_join(path, repeated[0])} is given twice; keep one of them")
    found: dict[str, object] = {}
    for key, entry in members.items():
        kind = _kind(entry)
        if key not in value:
            if kind.missing is REQUIRED:
                raise InvalidError(f"missing field {_join(path, key)}; start from Settings.default() to give only some")
            found[entry.name] = kind.missing
        elif value[key] is None and kind.optional:
            found[entry.name] = None
        else:
            try:
                found[entry.name] = kind.read(value[key], _join(path, key), unknown)
            except ValueError as reason:
                raise InvalidError(f"{_join(path, key)}: {reason}") from None
    return cls(**found)


def write_table(settings: object) -> dict[str, Json]:
    """The settings as JSON, keys in the order of the fields."""
    written: dict[str, Json] = {}
    for entry in fields(cast(Any, settings)):
        kind, value = _kind(entry), getattr(settings, entry.name)
        if value is not None or not kind.omitted_when_none:
            written[entry.name.removesuffix(kind.suffix)] = None if value is None else kind.write(value)
    return written


def keys_of(cls: type[object], path: str = "") -> Iterable[str]:
    """Every dotted key that the settings know, for the hint after a misspelt one."""
    for entry in fields(cast(Any, cls)):
        key = _join(path, entry.name.removesuffix(_kind(entry).suffix))
        yield key
        if hasattr(type(entry.default), "__dataclass_fields__"):
            yield from keys_of(type(entry.default), key)


def _declare(default: T, kind: Kind) -> T:
    return field(default=default, metadata={"kind": kind})


def _kind(entry: Any) -> Kind:
    return cast(Kind, entry.metadata["kind"])


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _shown(value: Json) -> str:
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return "null" if value is None else repr(value)


def _same(value: Any) -> Json:
    return cast(Json, value)


def _unsigned(bits: int) -> Callable[[Json, str, list[str]], int]:
    def read(value: Json, path: str, unknown: list[str]) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**bits:
            raise ValueError(f"expected a whole number from 0 to {2**bits - 1}, not {_shown(value)}")
        return value

    return read


def _flag(value: Json, path: str, unknown: list[str]) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"expected true or false, not {_shown(value)}")
    return value


def _duration(value: Json, path: str, unknown: list[str]) -> int:
    if not isinstance(value, str):
        raise ValueError(f"expected a duration as text, like '250ms', not {_shown(value)}")
    return parse_duration(value)


def _text(value: Json, path: str, unknown: list[str]) -> str:
    if not isinstance(value, str):
        raise ValueError(f"expected text, not {_shown(value)}")
    return value


def _texts(value: Json, path: str, unknown: list[str]) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError(f"expected an object whose values are all text, not {value!r}")
    return cast("dict[str, str]", dict(value))


def _choice(spellings: Mapping[str, E]) -> Callable[[Json, str, list[str]], E]:
    def read(value: Json, path: str, unknown: list[str]) -> E:
        if not isinstance(value, str) or value not in spellings:
            raise ValueError(f"expected one of {', '.join(spellings)}, not {_shown(value)}")
        return spellings[value]

    return read


def _spelling(spellings: Mapping[str, E]) -> Callable[[E], str]:
    return lambda member: next(name for name, found in spellings.items() if found is member)


def _table(cls: type[T]) -> Callable[[Json, str, list[str]], T]:
    return lambda value, path, unknown: read_table(cls, value, path, unknown)
