"""Times as users write them: ``7d``, ``90m``, ``1h30m``."""

from __future__ import annotations

import re

_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"([0-9]+)(ms|d|h|m|s)")


def seconds(duration: str) -> float:
    """How long it is. The API server has already refused what is no duration."""
    if _PART.sub("", duration) or not duration:
        raise ValueError(f"{duration!r} is no duration; write for instance 7d, 90m or 1h30m")
    return sum(int(count) * _SECONDS[unit] for count, unit in _PART.findall(duration))
