"""What every role is to the process that runs it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import web
from prometheus_client import CollectorRegistry

from slate_engine.runtime import Runtime
from slate_engine.server.config import Config
from slate_engine.server.health import Health
from slate_engine.store.open import open_store
from slate_engine.store.place import parse_url
from slate_engine.store.protocol import ObjectStore


@dataclass(frozen=True)
class Surroundings:
    """What a role is given: its configuration, and where it says how it is."""

    config: Config
    runtime: Runtime
    registry: CollectorRegistry
    health: Health

    def open_store(self) -> ObjectStore:
        store = self.config.store
        return open_store(store.url, store.options, runtime=self.runtime, registry=self.registry)

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

    def open_wal_store(self) -> ObjectStore | None:
        store = self.config.store
        if not store.wal_url:
            return None
        return open_store(store.wal_url, store.options, runtime=self.runtime, registry=self.registry)


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
