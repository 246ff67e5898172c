"""What every role is to the process that runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol, TypeVar

from aiohttp import web
from prometheus_client import CollectorRegistry

from slate_engine.api.db_builder import FilesBuilder
from slate_engine.api.object_store import ObjectStore as ApiStore
from slate_engine.api.prometheus import PrometheusMetricsRecorder
from slate_engine.api.vitals import Vitals
from slate_engine.lsm.reading import DatabaseFiles
from slate_engine.runtime import Runtime
from slate_engine.server.attending import AttendedStore
from slate_engine.server.config import Config
from slate_engine.server.health import Health
from slate_engine.store.open import open_store
from slate_engine.store.place import parse_url
from slate_engine.store.protocol import ObjectStore
from slate_engine.store.scrubbing import scrubbed

B = TypeVar("B", bound=FilesBuilder)


@dataclass(frozen=True)
class Surroundings:
    """What a role is given: its configuration, and where it says how it is."""

    config: Config
    runtime: Runtime
    registry: CollectorRegistry
    health: Health

    def files_builder(self, make: Callable[[str, ApiStore], B]) -> B:
        """A builder for the database that the configuration names, with its log's store and its metrics."""
        builder = make(self.config.path, ApiStore.of(self.store, self.runtime))
        if self.wal_store is not None:
            builder.with_wal_object_store(ApiStore.of(self.wal_store, self.runtime))
        builder.with_metrics_recorder(self.recorder)
        return builder

    def open_files(self, *, caretaker: bool = False) -> DatabaseFiles:
        return DatabaseFiles(self.store, self.config.path, self.runtime, wal_store=self.wal_store, caretaker=caretaker)

    # Made once, however often a start is tried: a registry that has a recorder twice shows everything twice.

    @cached_property
    def recorder(self) -> PrometheusMetricsRecorder:
        return PrometheusMetricsRecorder(self.registry)

    @cached_property
    def store(self) -> ObjectStore:
        store = self.config.store
        return AttendedStore(open_store(store.url, store.options, runtime=self.runtime, registry=self.registry))

    async def knock(self) -> None:
        """Ask the store something, once. Who opens a database waits patiently for a store that does not answer; before that
        one wants to know why."""
        store = self.config.store
        if parse_url(store.url).service in ("memory", "file"):
            return
        hasty = open_store(
            store.url, {**store.options, "retry_attempts": "1"}, runtime=self.runtime, registry=self.registry
        )
        try:
            async for _ in hasty.list(f"{self.config.path.strip('/')}/manifest/".lstrip("/")):
                return
        finally:
            await hasty.close()

    @cached_property
    def wal_store(self) -> ObjectStore | None:
        store = self.config.store
        if not store.wal_url:
            return None
        return AttendedStore(open_store(store.wal_url, store.options, runtime=self.runtime, registry=self.registry))


class Role(Protocol):
    """A role is started once, may be asked how it is at any time, and ends by ``drain``, or by itself."""

    name: str

    async def start(self) -> None:
        """Begin the work. Raises :class:`~slate_engine.errors.UnavailableError` if the store does not answer: then it may
        be called again."""
        ...

    async def ended(self) -> None:
        """Wait until the role cannot go on. Raises why."""
        ...

    async def drain(self, seconds: float) -> None:
        """Finish what was begun, within this time, and end."""
        ...

    def status(self) -> Mapping[str, Any]: ...

    def add_routes(self, application: web.Application) -> None: ...


def facts_of(vitals: Vitals) -> dict[str, Any]:
    """What is shown of a database, by either protocol. What a store says of its trouble may have a secret in it."""
    return {**asdict(vitals), "trouble": None if vitals.trouble is None else scrubbed(vitals.trouble)}
