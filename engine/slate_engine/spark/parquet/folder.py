"""A folder of a store that holds a table: where it is, how it is opened, and what readers see of it."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from slate_engine.runtime import Runtime, SystemRuntime
from slate_engine.spark.options import Location
from slate_engine.store.open import open_store
from slate_engine.store.options import OPTIONS, resolve
from slate_engine.store.place import parse_url
from slate_engine.store.protocol import ObjectMeta, ObjectStore

SCHEMES = ("s3", "gs", "gcs", "az", "azure", "abfss", "https", "file")
"""What is read and written by our own stores. Every other place is one for Spark's own connectors."""

CREDENTIALS = "SLATE_SINK_"
"""``SLATE_SINK_AWS_ACCESS_KEY_ID`` is ``AWS_ACCESS_KEY_ID`` for the table, where the database has another one."""

_IDENTITY = frozenset(option.name for option in OPTIONS if option.identity)
_NOT_FOR_TABLES = "cas"
"""An option of databases: a table has no conditional writes."""


def is_folder(place: str) -> bool:
    """Whether ``place`` is a url for our own stores."""
    return "://" in place and urlsplit(place).scheme.lower() in SCHEMES


@dataclass(frozen=True)
class Folder:
    """Goes to executors as it is. Credentials that stand in the environment are looked for by each process itself."""

    url: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(url: str, options: Mapping[str, str], database: Location) -> Folder:
        """With ``options``, or, if there are none, those of the database's store, where that is of the same kind."""
        if options or parse_url(url).service != parse_url(database.url).service:
            return Folder(url, options)
        return Folder(url, {name: value for name, value in database.options.items() if name != _NOT_FOR_TABLES})

    def open(self, runtime: Runtime, environment: Mapping[str, str] | None = None) -> ObjectStore:
        environment = os.environ if environment is None else environment
        return open_store(self.url, self._resolved(environment), runtime=runtime, environment=environment)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[tuple[ObjectStore, Runtime]]:
        """The store for a while."""
        runtime = SystemRuntime(threads=2)
        store = self.open(runtime)
        try:
            yield store, runtime
        finally:
            await store.close()

    def _resolved(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The options, and what variables with the prefix say. Credentials of the latter count more than any other: the
        options may be those of the database."""
        service = parse_url(self.url).service
        own = {name.removeprefix(CREDENTIALS): value for name, value in environment.items() if _is_own(name)}
        told, given = resolve(service, {}, own).values, resolve(service, self.options, {}).values
        if told.keys() & _IDENTITY:
            given = {name: value for name, value in given.items() if name not in _IDENTITY}
        return {**told, **given}


def _is_own(name: str) -> bool:
    return name.startswith(CREDENTIALS)


async def visible(store: ObjectStore) -> AsyncIterator[ObjectMeta]:
    """The objects that readers of tables look at: no part of their names begins with ``_`` or ``.``."""
    async for page in store.list(""):
        for meta in page:
            if not any(part.startswith(("_", ".")) for part in meta.key.split("/")):
                yield meta
