"""What the environment says of a database: the variables by which an operator tells a pod where it is.

They are those of the command and of services (:mod:`slate_engine.server.config`), which needs packages that an image of
Spark does not have: ``SLATE_STORE``, ``SLATE_PATH``, ``SLATE_STORE__WAL_URL`` and ``SLATE_STORE__OPTIONS`` say where, and
``SLATE_CHECKPOINT`` which state. The driver reads these and sends them on. ``SLATE_STORE__OPTIONS__CAS`` and its like hold
secrets: each process reads them for itself whenever it opens the store, and they never leave it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from slate_engine.errors import InvalidError

STORE = "SLATE_STORE"
PATH = "SLATE_PATH"
CHECKPOINT = "SLATE_CHECKPOINT"
_WAL_URL = "SLATE_STORE__WAL_URL"
_OPTIONS = "SLATE_STORE__OPTIONS"
OPTION_PREFIX = _OPTIONS + "__"


@dataclass(frozen=True)
class Told:
    """The database that the environment names; empty where it names none."""

    url: str
    path: str
    wal_url: str
    checkpoint: str
    options: Mapping[str, str] = field(repr=False)


def told(environment: Mapping[str, str] | None = None) -> Told:
    environment = os.environ if environment is None else environment
    url, path, wal_url, checkpoint = (environment.get(name, "") for name in (STORE, PATH, _WAL_URL, CHECKPOINT))
    return Told(url, path, wal_url, checkpoint, _options(environment.get(_OPTIONS, "")))


def own_options(url: str, environment: Mapping[str, str] | None = None) -> dict[str, str]:
    """The options of the store at ``url`` that this process alone knows. They are about the store that the environment
    names, where it names one."""
    environment = os.environ if environment is None else environment
    named = environment.get(STORE, "")
    if named and named.rstrip("/") != url.rstrip("/"):
        return {}
    return {
        name.removeprefix(OPTION_PREFIX).lower(): value
        for name, value in environment.items()
        if name.startswith(OPTION_PREFIX) and value
    }


def _options(text: str) -> dict[str, str]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str | int | float) for value in found.values()):
        # The value is not repeated: it may hold a secret.
        raise InvalidError(
            f'{_OPTIONS} must be a JSON object of values, such as {{"region": "eu-central-1"}}; correct it'
        )
    # Options are text; of JSON's numbers and truth values it is the text that JSON has for them.
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in found.items()}
