"""The Spark job of a BulkRead: the export job with its settings, or a program of the user's."""

from __future__ import annotations

from typing import Any

from slate_operator.api.bulk_read import BulkRead, Sink
from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import owned_by
from slate_operator.build.spark_run import JOB_FILE, SETTINGS, RunId, SparkRun
from slate_operator.kube.cluster import BULK_READS

_MODES = {"ErrorIfExists": "errorifexists", "Overwrite": "overwrite", "Append": "append"}


def id_of(read: BulkRead, attempt: int) -> RunId:
    owner = owned_by(BULK_READS, read.metadata.name, read.metadata.uid)
    return RunId(read.metadata.namespace, f"{read.metadata.name}-read", attempt, owner)


def run_of(read: BulkRead, database: SlateDatabase, attempt: int, image: str) -> SparkRun:
    """One attempt."""
    spec, id = read.spec, id_of(read, attempt)
    program = spec.application
    return SparkRun(
        id.namespace,
        id.family,
        attempt,
        id.owner,
        store=database.spec.store,
        spark=spec.spark,
        image=image,
        settings=settings_of(read) if program is None else {},
        main_file=JOB_FILE if program is None else program.main_file,
        arguments=("export", "--config", SETTINGS) if program is None else tuple(program.arguments),
        # What one attempt left halfway, the next one replaces.
        environment={"SLATE_CHECKPOINT": read.metadata.uid, "SLATE_JOB": read.metadata.uid},
        sink_secret=spec.sink.secret_ref.name if spec.sink is not None and spec.sink.secret_ref is not None else None,
    )


def settings_of(read: BulkRead) -> dict[str, Any]:
    """What the export job is told, by the names of its flags."""
    spec = read.spec
    assert spec.sink is not None
    told: dict[str, Any] = _table(spec.sink) | {"read": _options(read), "json": True}
    if spec.keys is not None:
        given = {"start": spec.keys.start, "end": spec.keys.end, "prefix": spec.keys.prefix}
        told |= {name: value for name, value in given.items() if value is not None}
    if spec.columns is not None:
        told["columns"] = ",".join(spec.columns)
    if spec.where is not None:
        told["where"] = spec.where
    return told


def _table(sink: Sink) -> dict[str, Any]:
    told: dict[str, Any] = {"to": sink.url, "format": sink.format, "mode": _MODES[sink.mode], "write": sink.options}
    return told if sink.store_options is None else {**told, "to-option": sink.store_options}


def _options(read: BulkRead) -> dict[str, str]:
    decode = read.spec.decode
    if decode is None:
        return {}
    told = {"keyFormat": decode.key.format, "valueFormat": decode.value.format, "malformed": decode.malformed.lower()}
    for name, decoder in (("keySchema", decode.key), ("valueSchema", decode.value)):
        if decoder.ddl is not None:
            told[name] = decoder.ddl
    return told
