"""The operator as a whole: what it is made of, in which order that starts, and in which order it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any

from kubernetes.aio.client import Configuration

from slate_operator.admin.client import HttpDatabases, by_service
from slate_operator.admin.database import Databases
from slate_operator.clock import Clock
from slate_operator.controller import Controller, Reconciler
from slate_operator.informer import SELECTED, WATCHED, Informer
from slate_operator.kube.cache import Cache
from slate_operator.kube.client import KubeCluster
from slate_operator.kube.cluster import Cluster, Kind, Unreachable
from slate_operator.kube.events import Recorder
from slate_operator.kube.freshness import Freshness
from slate_operator.kube.requests import Requests
from slate_operator.lease import Lease
from slate_operator.metrics import Metrics
from slate_operator.names import READY
from slate_operator.probes import Health, Probes
from slate_operator.pump import pump
from slate_operator.settings import Settings
from slate_operator.wakes import OURS
from slate_operator.work import WorkQueue

log = logging.getLogger(__name__)

DRAIN_SECONDS = 15.0
"""For reconciles that are under way when the process is told to end."""

Work = Coroutine[Any, Any, None]
Reconcilers = Callable[[Cluster, Databases, Clock, Settings], Mapping[Kind, Reconciler]]


class Service:
    """One operator. ``databases``, if given, stands for the client of the admin APIs."""

    def __init__(
        self,
        settings: Settings,
        configuration: Configuration,
        reconcilers: Reconcilers,
        clock: Clock,
        *,
        databases: Databases | None = None,
        host: str = "0.0.0.0",
    ) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.health = Health()
        self.cache = Cache(WATCHED)
        self.queue = WorkQueue(clock, settings.workers)
        self.probes = Probes(self.health, self.metrics, host=host, port=settings.health_port)
        self._configuration = configuration
        self._reconcilers = reconcilers
        self._clock = clock
        self._databases = databases
        self._freshness = Freshness(clock)
        self.health.alive += [self._freshness.late, self.queue.stuck]
        self.health.refresh.append(self._gauge)

    async def run(self, stop: asyncio.Event) -> None:
        """Work until ``stop``. Anything else that ends it is an error, and is raised."""
        async with AsyncExitStack() as ends:
            await self.probes.start()
            ends.push_async_callback(self.probes.stop)
            requests = Requests(
                self._configuration, timeout=self.settings.request_seconds, watcher=self.metrics.request
            )
            ends.push_async_callback(requests.close)
            lease = self._lease(requests)
            if lease is not None:
                self.health.starting = None  # standing by is being ready, or no second one could ever be rolled out
                if not await _unless(stop, lease.acquire()):
                    return
                ends.push_async_callback(lease.release)
            self.metrics.leading.set(1)
            leading = self._lead(stop, requests, ends)
            if lease is None:
                await leading
            else:
                # From the first list to the end of the last reconcile: until then nobody else may begin.
                await _together(asyncio.Event(), [leading, lease.keep()])

    async def _lead(self, stop: asyncio.Event, requests: Requests, ends: AsyncExitStack) -> None:
        recorder = Recorder(requests, self._clock, self.settings.identity)
        cluster = KubeCluster(requests, self.cache, self._freshness, recorder, selected=SELECTED)
        informer = Informer(requests, self.cache, self._freshness, self._clock, namespaces=self.settings.namespaces)
        if not await _unless(stop, self._first_list(informer)):
            return
        databases = self._databases
        if databases is None:
            locate = by_service(self.settings.cluster_domain)
            databases = made = HttpDatabases(cluster, locate, timeout=self.settings.admin_seconds)
            ends.push_async_callback(made.close)
        controller = Controller(
            cluster,
            self.cache,
            self.queue,
            self._reconcilers(cluster, databases, self._clock, self.settings),
            self._clock,
            self.metrics,
            resync=self.settings.resync_seconds,
        )
        controller.wake_all(0.0)
        self.health.starting = None
        resync = self.settings.resync_seconds
        works = [
            self.queue.run(controller.handle),
            informer.resync(resync, controller.wake_all),
            pump(self._configuration, self.settings.namespaces, informer.happened, self._clock),
        ]
        log.info("working in %s", ", ".join(self.settings.namespaces) or "all namespaces")
        try:
            await _together(stop, works)
            await self.queue.drain(DRAIN_SECONDS)
        finally:  # an error, such as the loss of the Lease: nothing may go on beside another one's work
            await self.queue.drain(0.0)

    async def _first_list(self, informer: Informer) -> None:
        while True:
            try:
                await informer.list_all()
                return
            except Unreachable as trouble:
                log.warning("the first list has to wait: %s", trouble)
                await self._clock.sleep(self._clock.uniform(1.0, 3.0))

    def _lease(self, requests: Requests) -> Lease | None:
        settings = self.settings
        if not settings.lease:
            return None
        return Lease(
            requests,
            self._clock,
            namespace=settings.namespace,
            name=settings.lease,
            identity=settings.identity,
            seconds=settings.lease_seconds,
        )

    def _gauge(self) -> None:
        self.metrics.waiting.set(len(self.queue))
        self.metrics.working.set(self.queue.busy)
        for kind in self.cache.kinds:
            bodies = list(self.cache.all(kind))
            self.metrics.objects.labels(kind.kind).set(len(bodies))
            if kind in OURS:
                judged = [each for body in bodies for each in (body.get("status") or {}).get("conditions") or ()]
                wrong = sum(each["type"] == READY and each["status"] != "True" for each in judged)
                self.metrics.not_ready.labels(kind.kind).set(wrong)


async def _unless(stop: asyncio.Event, work: Work) -> bool:
    """Whether the work was done before the process was told to end."""
    task = asyncio.create_task(work)
    try:
        await _first(stop, [task])
        if task.done():
            await task
            return True
        return False
    finally:
        await _cancelled([task])


async def _together(stop: asyncio.Event, works: Sequence[Work]) -> None:
    """Run works until told to end. The first that ends by itself ends all, with its error if it has one."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await _first(stop, tasks)
        for task in tasks:
            if task.done():
                await task
    finally:
        await _cancelled(tasks)


async def _first(stop: asyncio.Event, tasks: Sequence[asyncio.Task[None]]) -> None:
    told = asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([told, *tasks], return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()


async def _cancelled(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError, Exception):
            await task
