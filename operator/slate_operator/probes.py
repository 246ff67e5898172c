"""Whether the operator is alive and ready, and what it counts: three paths for the kubelet and Prometheus."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from slate_operator.metrics import Metrics


@dataclass
class Health:
    """``alive`` are questions that each answer with the reasons why the process should be started anew."""

    starting: str | None = "it is starting"
    alive: list[Callable[[], Sequence[str]]] = field(default_factory=list)
    refresh: list[Callable[[], None]] = field(default_factory=list)
    """Called before the metrics are shown, to bring gauges up to date."""

    def dead(self) -> list[str]:
        return [reason for ask in self.alive for reason in ask()]

    def not_ready(self) -> list[str]:
        return [self.starting] if self.starting is not None else []


class Probes:
    """The little server. ``port`` 0 takes any; :attr:`port` tells which."""

    def __init__(self, health: Health, metrics: Metrics, *, host: str, port: int) -> None:
        self._health = health
        self._metrics = metrics
        self._host = host
        self.port = port
        application = web.Application()
        application.router.add_get("/livez", self._livez)
        application.router.add_get("/readyz", self._readyz)
        application.router.add_get("/metrics", self._show_metrics)
        self._runner = web.AppRunner(application, access_log=None)

    async def start(self) -> None:
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self.port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        await self._runner.cleanup()

    async def _livez(self, request: web.Request) -> web.Response:
        return _verdict(self._health.dead(), "alive")

    async def _readyz(self, request: web.Request) -> web.Response:
        return _verdict(self._health.not_ready(), "ready")

    async def _show_metrics(self, request: web.Request) -> web.Response:
        for refresh in self._health.refresh:
            refresh()
        return web.Response(body=generate_latest(self._metrics.registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def _verdict(reasons: Sequence[str], good: str) -> web.Response:
    """Plain text: `kubectl describe` shows it of a probe that fails."""
    if not reasons:
        return web.Response(text=good + "\n")
    return web.Response(status=503, text=f"not {good}: " + "; ".join(reasons) + "\n")
