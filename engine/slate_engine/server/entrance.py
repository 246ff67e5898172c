"""The way in: who connects is counted, and shakes hands, before anything else is done for him.

A handshake costs more than what comes after it, so those who are about to shake hands count as much as those who are in,
and have little time for it. Each gets the certificate of the moment in which he came. A server of the event loop can do
neither: it counts nobody, and has one certificate for its whole life.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable, Collection

from slate_engine.runtime import Runtime
from slate_engine.server.tls import Certificates

log = logging.getLogger(__name__)

BACKLOG = 4096
HANDSHAKE_SECONDS = 10.0
NO_DESCRIPTORS = 1.0
"""How long to wait, in seconds, when the system has no room for another connection."""


class Entrance:
    """Of one address. ``inside`` is who is in. With ``make_room``, which may send one of them away, nobody who waits at the
    door keeps the next one out. ``refused`` is told of each who does not get in, and says what he is told: nothing, where
    that would have to be encrypted."""

    def __init__(
        self,
        receive: Callable[[], asyncio.Protocol],
        most: int,
        inside: Callable[[], Collection[asyncio.Protocol]],
        refused: Callable[[str], bytes],
        runtime: Runtime,
        certificates: Certificates | None = None,
        *,
        make_room: Callable[[], bool] | None = None,
        handshake_seconds: float = HANDSHAKE_SECONDS,
    ) -> None:
        self._receive = receive
        self._most = most
        self._inside = inside
        self._refused = refused
        self._runtime = runtime
        self._certificates = certificates
        self._make_room = make_room
        self._handshake_seconds = handshake_seconds
        self._arriving: dict[asyncio.Protocol, asyncio.Task[None]] = {}
        self._sockets: list[socket.socket] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, host: str, port: int) -> int:
        """Take people in from now on; the port, which is the one asked for unless that was 0."""
        self._sockets = await _listening(host, port)
        self._tasks = [asyncio.ensure_future(self._accept(each)) for each in self._sockets]
        if self._certificates is not None:
            self._tasks.append(asyncio.ensure_future(self._certificates.keep_fresh()))
        return int(self._sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Take nobody in any more."""
        ended = [*self._tasks, *self._arriving.values()]
        for task in ended:
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)
        for each in self._sockets:
            each.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except ConnectionError:
                continue  # he has left already
            except OSError as error:
                log.error("nobody can be taken in at the moment: %s", error)
                await self._runtime.sleep(NO_DESCRIPTORS)
                continue
            self._admit(accepted)
            await self._runtime.sleep(0)  # a crowd at the door does not keep those who are in from being served

    def _admit(self, accepted: socket.socket) -> None:
        accepted.setblocking(False)
        if self._is_full() and not self._made_room():
            self._turn_away(accepted)
            return
        newcomer = self._receive()
        self._arriving[newcomer] = task = asyncio.ensure_future(self._shake_hands(accepted, newcomer))
        task.add_done_callback(lambda _: self._arriving.pop(newcomer, None))

    def _is_full(self) -> bool:
        inside = self._inside()
        return len(inside) + sum(newcomer not in inside for newcomer in self._arriving) >= self._most

    def _made_room(self) -> bool:
        if self._make_room is None:
            return False
        first = next(iter(self._arriving), None)
        if first is None:
            return self._make_room()
        self._arriving.pop(first).cancel()
        return True

    def _turn_away(self, accepted: socket.socket) -> None:
        told = self._refused("clients")
        with contextlib.closing(accepted), contextlib.suppress(OSError):
            if self._certificates is None:
                accepted.send(told)

    async def _shake_hands(self, accepted: socket.socket, newcomer: asyncio.Protocol) -> None:
        loop = asyncio.get_running_loop()
        try:
            if self._certificates is None:
                await loop.connect_accepted_socket(lambda: newcomer, accepted)
            else:
                await loop.connect_accepted_socket(
                    lambda: newcomer,
                    accepted,
                    ssl=self._certificates.context,
                    ssl_handshake_timeout=self._handshake_seconds,
                )
        except OSError as error:  # those of TLS, and being too late, are of this kind
            log.debug("a connection did not come about: %s", error)
            self._refused("handshake")
            accepted.close()


async def _listening(host: str, port: int) -> list[socket.socket]:
    found: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in await asyncio.get_running_loop().getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        ):
            made = socket.socket(family, kind, protocol)
            found.append(made)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            made.bind(address)
            made.listen(BACKLOG)
            made.setblocking(False)
    except OSError:
        for each in found:
            each.close()
        raise
    return found
