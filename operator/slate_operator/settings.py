"""What the operator is told at its start, by environment variables, which the chart sets. Flags of the command win."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

PREFIX = "SLATE_OPERATOR_"

LogFormat = Literal["json", "human"]


class BadSettings(ValueError):
    """A setting that cannot be; its message says which and what it may be."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Each field is the variable of its name with the prefix ``SLATE_OPERATOR_``."""

    image: str = ""
    """The image of databases that name none and are seen for the first time."""
    spark_image: str = ""
    """The image of Spark jobs that name none."""
    spark_role: str = ""
    """What the service accounts of Spark drivers are bound to, as Role/NAME or ClusterRole/NAME; nothing, if empty."""
    namespaces: tuple[str, ...] = ()
    """Where the operator works, separated by commas; everywhere if there is none."""
    namespace: str = "default"
    """Where the operator itself runs; its Lease is there."""
    identity: str = field(default_factory=socket.gethostname)
    """The name of this process in the Lease: its pod's."""
    cluster_domain: str = "cluster.local"
    """The DNS suffix of Services, for the names in certificates."""
    lease: str = "slatekeeper"
    """The Lease whose holder works; without a name, nobody is asked."""
    lease_seconds: float = 30.0
    """A holder that has not renewed for so long has lost it."""
    resync_seconds: float = 600.0
    """Every object is looked at again after about so long, if nothing happened before."""
    workers: int = 16
    """How many objects are reconciled at a time."""
    request_seconds: float = 30.0
    """How long the API server may take to answer."""
    admin_seconds: float = 20.0
    """How long a database's pod may take to answer."""
    health_port: int = 8081
    """Where /livez, /readyz and /metrics are."""
    log_level: str = "info"
    log_format: LogFormat = "json"

    @property
    def everywhere(self) -> bool:
        return not self.namespaces


def of_environment(environment: Mapping[str, str] | None = None, **given: object) -> Settings:
    """The settings of the environment, with those that are given (and are not None) in their place."""
    known = Settings.__dataclass_fields__
    environment = os.environ if environment is None else environment
    found: dict[str, object] = {}
    for name in known:
        text = environment.get(PREFIX + name.upper())
        if text is not None:
            found[name] = _parsed(name, text)
    found.update({name: value for name, value in given.items() if value is not None})
    return Settings(**found)  # type: ignore[arg-type]


def _parsed(name: str, text: str) -> object:
    kind = Settings.__dataclass_fields__[name].type
    try:
        if kind == "float":
            return _positive(float(text))
        if kind == "int":
            return int(_positive(int(text)))
    except ValueError:
        raise BadSettings(f"{PREFIX}{name.upper()} is {text!r}, but it is a number above 0") from None
    if kind == "LogFormat" and text not in get_args(LogFormat):
        raise BadSettings(f"{PREFIX}{name.upper()} is {text!r}, but it is one of {', '.join(get_args(LogFormat))}")
    if name == "namespaces":
        return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    return text


def _positive(number: float) -> float:
    if number <= 0:
        raise ValueError
    return number
