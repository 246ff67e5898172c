"""One client: what it has said of itself, and what it is in the middle of."""

from __future__ import annotations

from dataclasses import dataclass, field

from slate_engine.server.keyspace import Watch
from slate_engine.server.resp.command import Command
from slate_engine.server.resp.service import RespService


@dataclass(eq=False)
class Session:
    """The state of a connection. ``durable`` says whether a write is answered when it is stored, or when it is seen."""

    service: RespService
    id: int
    address: str
    opened: float
    authenticated: bool
    version: int = 2
    name: bytes = b""
    library: dict[bytes, bytes] = field(default_factory=dict)
    durable: bool = True
    queue: list[tuple[Command, list[bytes]]] | None = None
    """The commands since MULTI; None outside of one."""
    queued_bytes: int = 0
    spoiled: bool = False
    """A command after MULTI was wrong, so EXEC will refuse them all."""
    watch: Watch | None = None
    leaving: bool = False
    last_command: str = ""
    last_active: float = 0.0
    """When it last asked for something."""
    last_heard: float = 0.0
    """When a byte last came, to the second."""
    last_read: float = 0.0
    """When it last read something, or need not, to the second."""
    stranger_since: float = 0.0
    """Since when the password is waited for."""

    async def forget_watch(self) -> None:
        watch, self.watch = self.watch, None
        if watch is not None:
            await watch.end()

    async def leave_transaction(self) -> None:
        self.queue, self.queued_bytes, self.spoiled = None, 0, False
        await self.forget_watch()

    async def reset(self) -> None:
        """As if the client had just come."""
        await self.leave_transaction()
        self.version, self.name, self.durable = 2, b"", True
        if self.authenticated and self.service.gate.shut:
            # Only who was let in has his time anew: else a stranger could stay for ever by this.
            self.authenticated, self.stranger_since = False, self.service.keyspace.runtime.monotonic()
