"""A service as a process: it starts, says how it is, and ends in order.

HTTP comes first, so that whoever waits can ask why it takes so long. A store that does not answer is tried again. SIGTERM
and SIGINT drain; a second one ends at once. How it ended is told by the exit code.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Callable
from ipaddress import ip_address

from prometheus_client import REGISTRY

from slate_engine.errors import ClosedError, CloseReason, DatabaseDeleted, Error, InvalidError, UnavailableError
from slate_engine.lsm.loops import Loop
from slate_engine.runtime import SystemRuntime
from slate_engine.server.config import Config
from slate_engine.server.descriptors import room_for
from slate_engine.server.gate import Gate
from slate_engine.server.health import Health
from slate_engine.server.http.application import application
from slate_engine.server.http.server import HttpServer
from slate_engine.server.roles.role import Role, Surroundings
from slate_engine.server.tls import Certificates
from slate_engine.store.scrubbing import scrubbed

log = logging.getLogger(__name__)

CLEAN, FAILED, UNREACHABLE, FENCED = 0, 1, 5, 6
"""Exit codes, the same as those of the other verbs of the command."""

LONGEST_PAUSE = 15.0
HEARTBEAT = 1.0


def serve(config: Config, role_of: Callable[[Surroundings], Role]) -> int:
    """Run a role until it ends; the exit code."""
    import uvloop

    return uvloop.run(_serve(config, role_of))


async def _serve(config: Config, role_of: Callable[[Surroundings], Role]) -> int:
    runtime = SystemRuntime()
    check_doors(config)
    surroundings = Surroundings(config, runtime, REGISTRY, Health(config.stall_seconds))
    surroundings.health.watch.open()
    role = role_of(surroundings)
    stop = _signals()
    beating = asyncio.ensure_future(_beat(runtime))
    http = await _start_http(surroundings, role)
    try:
        return await _live(role, surroundings, stop)
    finally:
        beating.cancel()
        await http.close()


async def _live(role: Role, surroundings: Surroundings, stop: asyncio.Event) -> int:
    config, health = surroundings.config, surroundings.health
    stopping = asyncio.ensure_future(stop.wait())
    working = asyncio.ensure_future(_work(role, surroundings))
    try:
        await asyncio.wait((stopping, working), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            verdict = _verdict(role, working.exception())
            if verdict == FENCED and config.fenced_hold_seconds:
                deleted = isinstance(working.exception(), DatabaseDeleted)
                health.starting = "its database was deleted" if deleted else "it was replaced by a newer process"
                await _hold(role, stop, config.fenced_hold_seconds)
            return verdict
        health.draining = True
        log.info("%s was told to end; it finishes what it has begun, for at most %g s", role.name, config.drain_seconds)
        stop.clear()
        return await _drain(role, working, stop, config.drain_seconds)
    finally:
        stopping.cancel()
        working.cancel()
        await asyncio.gather(stopping, working, return_exceptions=True)


async def _hold(role: Role, stop: asyncio.Event, seconds: float) -> None:
    """Serve nobody, and stay: whoever runs this process may be about to remove it, and would start it again if it ended."""
    log.info("%s waits to be removed, for at most %g s", role.name, seconds)
    with contextlib.suppress(Error, TimeoutError):
        await role.drain(0)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)


async def _work(role: Role, surroundings: Surroundings) -> None:
    await _start(role, surroundings)
    surroundings.health.starting = None
    log.info("%s is ready", role.name)
    await role.ended()


async def _start(role: Role, surroundings: Surroundings) -> None:
    """Try until the store answers: a pod that comes up before its bucket does not have to be started again and again."""
    runtime, health, patience = surroundings.runtime, surroundings.health, surroundings.config.start_seconds
    began, pause = runtime.monotonic(), 0.5
    while True:
        try:
            await surroundings.knock()
            health.starting = "it is opening the database"
            await role.start()
            return
        except UnavailableError as trouble:
            waited = runtime.monotonic() - began
            if patience and waited + pause > patience:
                raise
            health.starting = f"the store does not answer: {scrubbed(trouble.message)}"
            log.warning("%s cannot start yet, and tries again in %.1f s: %s", role.name, pause, trouble.message)
        await runtime.sleep(runtime.uniform(pause / 2, pause))
        pause = min(pause * 2, LONGEST_PAUSE)


async def _drain(role: Role, working: asyncio.Task[None], stop: asyncio.Event, seconds: float) -> int:
    draining = asyncio.ensure_future(role.drain(seconds))
    again = asyncio.ensure_future(stop.wait())
    try:
        done, _ = await asyncio.wait((draining, again), timeout=seconds + 5, return_when=asyncio.FIRST_COMPLETED)
        if draining not in done:
            log.error("%s did not end in time; what was not durable is lost", role.name)
            return FAILED
        return _verdict(role, draining.exception())
    finally:
        for task in (draining, again):
            task.cancel()
        await asyncio.gather(draining, again, return_exceptions=True)


def _verdict(role: Role, error: BaseException | None) -> int:
    if error is None:
        log.info("%s has ended", role.name)
        return CLEAN
    if isinstance(error, DatabaseDeleted):
        log.error("%s ends: %s", role.name, error.message)
        return FENCED
    if isinstance(error, ClosedError) and error.reason is CloseReason.FENCED:
        log.error("%s has been replaced: %s", role.name, error.message)
        return FENCED
    if isinstance(error, UnavailableError):
        log.error("%s gives up: %s", role.name, error.message)
        return UNREACHABLE
    if isinstance(error, Error):
        log.error("%s cannot go on: %s", role.name, error.message)
    else:
        log.error("%s broke down", role.name, exc_info=error)
    return FAILED


async def _start_http(surroundings: Surroundings, role: Role) -> HttpServer:
    config, runtime = surroundings.config.http, surroundings.runtime
    room_for(config.max_connections, "http.max_connections")
    made = application(
        config, Gate(config.token_file, runtime), surroundings.health, surroundings.registry, role.status, runtime
    )
    role.add_routes(made)
    certificates = Certificates.of(config.tls, runtime)
    server = HttpServer(made, config, certificates, surroundings.registry, runtime)
    port = await server.open()
    scheme = "http" if certificates is None else "https"
    log.info("health, metrics and status are served at %s://%s:%d", scheme, config.host, port)
    return server


def check_doors(config: Config) -> None:
    """Nothing is open to strangers by mistake: without a secret only this machine is served."""
    if config.http.token_file is None and not _is_loopback(config.http.host):
        raise InvalidError(
            f"http.host {config.http.host} can be reached from elsewhere, so a token is needed: give http.token_file"
        )
    if config.resp.password_file is None and not _is_loopback(config.resp.host):
        raise InvalidError(
            f"resp.host {config.resp.host} can be reached from elsewhere, so a password is needed: give resp.password_file"
        )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _signals() -> asyncio.Event:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    return stop


async def _beat(runtime: SystemRuntime) -> None:
    """The event loop's own pulse: whoever holds it up for long is noticed when it answers again."""
    loop = Loop("the event loop", runtime)
    with loop.running():
        while True:
            await loop.sleep(HEARTBEAT)
