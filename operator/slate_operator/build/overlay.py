"""Laying one object over another, as a strategic merge patch does for pods: lists of named things merge by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "volumes": "name",
    "env": "name",
    "imagePullSecrets": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
"""By what the entries of a list are told apart. Every other list is replaced as a whole, but for those that add up."""
_ADDED = ("envFrom",)
"""Lists whose entries have no names: those of the user follow ours, and win over them, for the last one counts."""


def laid_over(base: Any, over: Any, field: str = "") -> Any:
    """``base`` changed by ``over``. A null takes away what is there."""
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        merged = {name: value for name, value in base.items() if name not in over}
        for name, value in over.items():
            if value is not None:
                merged[name] = laid_over(base.get(name), value, name)
        return merged
    if field in _KEYS and isinstance(base, list) and isinstance(over, list):
        return _by_key(base, over, _KEYS[field])
    if field in _ADDED and isinstance(base, list) and isinstance(over, list):
        return [*base, *(entry for entry in over if entry not in base)]
    return over


def _by_key(base: Sequence[Any], over: Sequence[Any], key: str) -> list[Any]:
    """Those that are there keep their places, new ones follow."""
    changes = {entry[key]: entry for entry in over if isinstance(entry, Mapping) and key in entry}
    known = {entry.get(key) for entry in base}
    kept = [laid_over(entry, changes[entry[key]]) if entry.get(key) in changes else entry for entry in base]
    return kept + [entry for entry in over if not isinstance(entry, Mapping) or entry.get(key) not in known]
