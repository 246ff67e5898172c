"""The operator's process: ``python -m slate_operator``."""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal
from collections.abc import Sequence

from slate_operator import logs
from slate_operator.clock import SystemClock
from slate_operator.informer import NotInstalled
from slate_operator.kube.requests import connect
from slate_operator.lease import LeaseLost
from slate_operator.pump import PumpBroken
from slate_operator.registry import reconcilers
from slate_operator.service import Service
from slate_operator.settings import PREFIX, BadSettings, Settings, of_environment

log = logging.getLogger(__name__)

CODE_FAILED = 1
CODE_LEASE_LOST = 3


def main(words: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(words)
    try:
        namespaces = tuple(given.namespace) or None
        settings = of_environment(namespaces=namespaces, log_format=given.log_format, image=given.image)
    except BadSettings as error:
        _parser().error(str(error))
    logs.set_up(settings.log_level, settings.log_format)
    return asyncio.run(_run(settings, given.kubeconfig, given.context))


async def _run(settings: Settings, kubeconfig: str | None, context: str | None) -> int:
    loop, stop = asyncio.get_running_loop(), asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    configuration = await connect(kubeconfig, context)
    service = Service(settings, configuration, reconcilers, SystemClock())
    try:
        await service.run(stop)
    except LeaseLost as loss:
        log.error("%s; another process is the operator now", loss)
        return CODE_LEASE_LOST
    except (NotInstalled, PumpBroken) as error:
        log.error("%s", error)
        return CODE_FAILED
    log.info("ended as told")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m slate_operator",
        description="The operator of SlateDB databases. In a cluster it needs no flags: the chart sets its environment "
        f"({PREFIX}…). Outside of one it reaches the API server by a kubeconfig, but databases only where the names of "
        "their Services can be resolved.",
    )
    parser.add_argument("--kubeconfig", help="reach the API server as this file says, instead of as a pod")
    parser.add_argument("--context", help="this context of the kubeconfig")
    parser.add_argument("--namespace", action="append", default=[], help="work in this namespace only; may be repeated")
    parser.add_argument("--image", help="the image of databases that name none")
    parser.add_argument("--log-format", choices=("json", "human"), help="how log lines look")
    return parser
