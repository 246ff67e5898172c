"""The configuration file of each role, in the shape that ``slate serve ROLE --config`` reads."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import yaml

from slate_operator.api.amount import size_of
from slate_operator.api.database import SlateDatabase
from slate_operator.api.duration import seconds
from slate_operator.build.place import Place
from slate_operator.names import Port, Role

FOLDER = "/etc/slate"
FILE = "config.yaml"
TLS = "/etc/slate-tls"
TOKENS = "/etc/slate-admin/tokens"
PASSWORDS = "/etc/slate-auth/passwords"

DRAIN_SECONDS = 20
FENCED_HOLD_SECONDS = 120
"""Longer than a rollout takes to remove the pod that was replaced: started anew, it would replace its replacement."""
ANYWHERE = "0.0.0.0"

_CERTIFICATE = {"certificate": f"{TLS}/tls.crt", "key": f"{TLS}/tls.key"}


def config_of(database: SlateDatabase, role: str) -> dict[str, Any]:
    """What the process of the role is told."""
    spec, place = database.spec, Place.of(database.spec.store.url)
    made: dict[str, Any] = {
        "store": {"url": place.root, "options": dict(spec.store.options)},
        "path": place.path,
        "http": {"host": ANYWHERE, "port": Port.HTTP, "token_file": TOKENS, "tls": _CERTIFICATE},
        "log": {"format": "json"},
        "drain_seconds": DRAIN_SECONDS,
    }
    if role in (Role.WRITER, Role.READER):
        made["resp"] = {"host": ANYWHERE, "port": Port.RESP, "password_file": PASSWORDS}
        if spec.writer.auth.tls:
            made["resp"]["tls"] = _CERTIFICATE
    match role:
        case Role.WRITER:
            made |= {"settings": writer_settings(database), "fenced_hold_seconds": FENCED_HOLD_SECONDS}
        case Role.COMPACTOR:
            made |= {"settings": compactor_settings(database), "fenced_hold_seconds": FENCED_HOLD_SECONDS}
            if (spark := spec.compactor.spark) is not None:
                made["compactor"] = {
                    "max_job_bytes": size_of(spark.larger_than),
                    "leave_seconds": seconds(spark.leave_for),
                }
        case Role.READER:
            made["reader"] = {"poll_seconds": seconds(spec.readers.poll_interval)}
        case Role.GC:
            made["gc"] = {
                "interval": seconds(spec.gc.interval),
                "min_age": seconds(spec.gc.min_age),
                # Never by itself: the operator has the bytes deleted, and looks at protection and policy right before.
                "delete_grace": None,
                "owner": database.metadata.uid,
            }
    return made


def writer_settings(database: SlateDatabase) -> dict[str, Any]:
    """Those of the user. Compaction and garbage collection inside the writer are off where pods of ours do them: two
    compactors would fence each other off for ever."""
    settings = dict(database.spec.writer.settings)
    if database.spec.compactor.enabled:
        settings["compactor_options"] = None
    settings["garbage_collector_options"] = None
    return settings


_OF_SSTS = ("compression_codec", "min_filter_keys")


def compactor_settings(database: SlateDatabase) -> dict[str, Any]:
    """How the writer writes SSTs, so that what is compacted looks the same, with the compactor's own. What else the writer
    is told is no reason to restart a compactor."""
    settings = {name: value for name, value in database.spec.writer.settings.items() if name in _OF_SSTS}
    if database.spec.compactor.settings:
        settings["compactor_options"] = dict(database.spec.compactor.settings)
    return settings


_DUMPER = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""The one in C, where there is one: it is ten times as fast, and every look at a database writes some files."""


def as_file(config: Mapping[str, Any]) -> str:
    return str(yaml.dump(dict(config), Dumper=_DUMPER, sort_keys=True, width=1 << 20))


def digest(value: Any) -> str:
    """Of what a pod reads at its start. The same contents give the same digest, whatever their order."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
