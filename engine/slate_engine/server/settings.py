"""SlateDB's settings, of which a configuration gives only those that differ from the defaults."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from slate_engine.api.settings import Settings


def settings_of(given: Mapping[str, Any]) -> Settings:
    """The defaults, changed by ``given``, tables within tables."""
    made = Settings.default()
    _apply(made, given, "")
    return made


def _apply(settings: Settings, given: Mapping[str, Any], above: str) -> None:
    for name, value in given.items():
        if isinstance(value, Mapping) and value:
            _apply(settings, value, f"{above}{name}.")
        else:
            settings.set(f"{above}{name}", json.dumps(value))
