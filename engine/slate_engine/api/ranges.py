"""From the ranges that a caller gives to those that the engine works with."""

from __future__ import annotations

from slate_engine.api import arguments
from slate_engine.api.building import instance
from slate_engine.api.keys import KeyRange
from slate_engine.errors import InvalidError
from slate_engine.format.key_range import UNBOUNDED, Bound
from slate_engine.format.key_range import KeyRange as EngineRange


def engine_range(range: KeyRange) -> EngineRange:
    """The keys of ``range``, which must not be empty."""
    instance(range, KeyRange, "a range").check()
    return EngineRange(_bound(range.start, range.start_inclusive), _bound(range.end, range.end_inclusive))


def prefix_range(prefix: bytes, subrange: KeyRange) -> EngineRange:
    """The keys that begin with ``prefix`` and go on with something in ``subrange``."""
    start = arguments.octets(prefix, "a prefix")
    after = engine_range(subrange)
    whole = EngineRange.of_prefix(start)
    wanted = EngineRange(
        Bound(after.start.type, start + after.start.key) if after.start.bounded else whole.start,
        Bound(after.end.type, start + after.end.key) if after.end.bounded else whole.end,
    )
    if wanted.is_empty:
        raise InvalidError("range must be non-empty")
    return wanted


def public_range(range: EngineRange | None) -> KeyRange | None:
    """The other way round."""
    if range is None:
        return None
    return KeyRange(
        start=range.start.key if range.start.bounded else None,
        start_inclusive=range.start == Bound.included(range.start.key),
        end=range.end.key if range.end.bounded else None,
        end_inclusive=range.end == Bound.included(range.end.key),
    )


def _bound(key: bytes | None, inclusive: bool) -> Bound:
    if key is None:
        return UNBOUNDED
    return Bound.included(bytes(key)) if inclusive else Bound.excluded(bytes(key))
