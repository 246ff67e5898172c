"""kopf, and nothing but its watches: it brings every change of the kinds that we watch. No other module knows it.

Only ``on.event`` handlers are registered. Those never make kopf add a finalizer or an annotation, keep no state in objects
and know no retries; all of that is ours, where it can be tested.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from typing import Any

import kopf
from kubernetes.aio.client import Configuration

from slate_operator.clock import Clock
from slate_operator.informer import WATCHED
from slate_operator.kube.cluster import Body, Kind
from slate_operator.names import GROUP

Happened = Callable[[Kind, str | None, Body], None]

LONGEST_END = 5.0

IDENTITY: Any = "slatekeeper"
"""Only peers would ask for it. kopf's own choice looks for the name of the user, and in a pod there is none."""

_SCHEMES = ("bearer ", "Bearer ")


class PumpBroken(Exception):
    """kopf has given up; without it we are blind."""


async def pump(configuration: Configuration, namespaces: tuple[str, ...], happened: Happened, clock: Clock) -> None:
    """Watch until cancelled. If a watch breaks down for good, so does this.

    kopf has a thread and an event loop to itself. At its end it cancels every task of its loop that it does not know, and
    it takes the process's signals where it can; neither is to reach a reconcile that is under way.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    ended: asyncio.Future[str] = loop.create_future()

    def heard(kind: Kind, type: str | None, body: Body) -> None:
        loop.call_soon_threadsafe(happened, kind, type, body)

    def run() -> None:
        how = "it ended without a word"
        try:
            asyncio.run(
                kopf.operator(
                    registry=_registry(configuration, heard),
                    settings=settings(clock),
                    clusterwide=not namespaces,
                    namespaces=namespaces,
                    standalone=True,
                    identity=IDENTITY,
                    stop_flag=stop,
                )
            )
        except BaseException as error:
            how = f"{type(error).__name__}: {error}"
        with contextlib.suppress(RuntimeError):  # nobody listens any more
            loop.call_soon_threadsafe(ended.set_result, how)

    threading.Thread(target=run, name="kopf", daemon=True).start()
    try:
        raise PumpBroken(f"the watches have ended: {await asyncio.shield(ended)}")
    finally:
        stop.set()
        await asyncio.wait([ended], timeout=LONGEST_END)


def settings(clock: Clock) -> kopf.OperatorSettings:
    made = kopf.OperatorSettings()
    made.persistence.finalizer = f"{GROUP}/never-set"
    # The Lease decides who works. A stray object of kopf's peering must not stop us.
    made.peering.standalone = True
    # CRDs and namespaces are not followed: that would need rights on the whole cluster, and ours do not come and go.
    made.scanning.disabled = True
    # A connection that a load balancer has forgotten stays silent for ever; the server ends each after five minutes.
    made.watching.server_timeout = 300
    made.watching.client_timeout = 330
    made.watching.connect_timeout = 10
    made.networking.request_timeout = 30
    made.networking.error_backoffs = Patience(clock)
    # Handlers only note what they were told. A limit of workers would only make those that idle keep others waiting.
    made.queueing.worker_limit = None
    made.queueing.idle_timeout = 0.5
    made.process.ultimate_exiting_timeout = None
    made.posting.enabled = False
    made.posting.level = logging.CRITICAL
    for kind, label in WATCHED.items():
        if label:
            made.watching.label_selectors[_group(kind), kind.plural] = label
    return made


class Patience:
    """Pauses between attempts to reach the API server, without end: 1, 2, 4 … 30 s, each with chance in it."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __iter__(self) -> Iterator[float]:
        pause = 1.0
        while True:
            yield pause * self._clock.uniform(0.75, 1.25)
            pause = min(pause * 2, 30.0)


def _registry(configuration: Configuration, happened: Happened) -> kopf.OperatorRegistry:
    registry = kopf.OperatorRegistry()

    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await _connection(configuration)

    kopf.on.login(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(login)
    for kind in WATCHED:
        _watch(registry, kind, happened)
    return registry


def _watch(registry: kopf.OperatorRegistry, kind: Kind, happened: Happened) -> None:
    async def heard(event: kopf.RawEvent, **_: Any) -> None:
        happened(kind, event["type"], dict(event["object"]))

    group, version = _group(kind), kind.api_version.rpartition("/")[2]
    kopf.on.event(group, version, kind.plural, registry=registry, id=f"watch-{kind.plural}")(heard)


def _group(kind: Kind) -> str:
    return kind.api_version.rpartition("/")[0]


async def _connection(configuration: Configuration) -> kopf.ConnectionInfo:
    """The connection of our own client, so that both see the same API server with the same rights."""
    token = await configuration.get_api_key_with_prefix("BearerToken")
    for scheme in _SCHEMES:
        token = token.removeprefix(scheme) if token else token
    return kopf.ConnectionInfo(
        server=configuration.host,
        ca_path=configuration.ssl_ca_cert,
        insecure=not configuration.verify_ssl,
        token=token,
        scheme="Bearer" if token else None,
        certificate_path=configuration.cert_file,
        private_key_path=configuration.key_file,
    )
