"""The operator with 1,000 Checkpoints and 200 SlateDatabases in one namespace of a real API server: how long a full resync
takes, what it costs the API server, and how much memory.

No pods run there. Deployments are marked as rolled out by this program, and databases answer at once from within the
operator's process; so the figures are those of the operator and the API server alone.
"""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from slate_operator import logs
from slate_operator.clock import SystemClock
from slate_operator.kube.cache import key_of
from slate_operator.kube.cluster import CHECKPOINTS, DATABASES, DEPLOYMENTS, Body, Kind
from slate_operator.kube.requests import MERGE, Place, Requests, connect
from slate_operator.names import API_VERSION
from slate_operator.registry import reconcilers
from slate_operator.service import Service
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.edge.instant import InstantDatabases

N_DATABASES, N_CHECKPOINTS = 200, 1000
NAMESPACE = "bench"
CRDS = Path(__file__).parents[1] / "crds"
BAR_SECONDS, BAR_MB = 60.0, 400.0
AT_ONCE = 16
LONGEST = 600.0


def run() -> Iterator[dict[str, Any]]:
    with tempfile.TemporaryDirectory(prefix="slate-bench-") as folder, ApiServer(Path(folder)) as server:
        server.kubectl.apply("---\n".join(file.read_text() for file in sorted(CRDS.glob("*.yaml"))))
        server.kubectl.wait("condition=Established", "crd", "--all", timeout=30)
        server.kubectl("create", "namespace", NAMESPACE)
        asyncio.run(populate(server))
        with operator(server) as made:
            began = time.perf_counter()
            asyncio.run(roll_out(server))
            numbers = settled(made)
            yield {
                "what": f"{N_DATABASES} databases and {N_CHECKPOINTS} checkpoints from nothing to Ready",
                "seconds": round(time.perf_counter() - began, 1),
                "api_calls_per_object": round(calls(numbers) / (N_DATABASES + N_CHECKPOINTS), 1),
            }
        ready = asyncio.run(count_ready(server))
        yield {"what": "objects that are Ready", "figure": ready, "bar": N_DATABASES + N_CHECKPOINTS} | {
            "ok": ready == N_DATABASES + N_CHECKPOINTS
        }
        began = time.perf_counter()
        with operator(server) as again:
            numbers = settled(again)
            seconds = time.perf_counter() - began - QUIET
            yield from resync(again, numbers, seconds)


def resync(again: Operator, numbers: dict[str, float], seconds: float) -> Iterator[dict[str, Any]]:
    """A new process, which has everything to look at and nothing to do."""
    looks = total(numbers, "slatekeeper_reconciles_total")
    yield {
        "what": "a full resync by a new process, its start included",
        "seconds": round(seconds, 1),
        "bar_seconds": BAR_SECONDS,
        "ok": seconds <= BAR_SECONDS and looks >= N_DATABASES + N_CHECKPOINTS,
        "reconciles": int(looks),
    }
    by_kind = {
        kind: total(numbers, "slatekeeper_reconciles_total", kind=kind) for kind in ("SlateDatabase", "Checkpoint")
    }
    yield {
        "what": "requests to the API server for each look, databases answering at once from within the process",
        "api_calls_per_reconcile": round(calls(numbers) / looks, 2),
        "by": {name: int(count) for name, count in sorted(by_verb(numbers).items())},
        "reconciles": {kind: int(count) for kind, count in by_kind.items()},
    }
    writes = sum(count for name, count in by_verb(numbers).items() if not name.startswith(("get", "list")))
    yield {
        "what": "writes in the steady state, of status or anything else",
        "figure": int(writes),
        "bar": 0,
        "ok": not writes,
    }
    yield {
        "what": "memory of the operator",
        "ours_mb": round(again.megabytes(), 1),
        "bar_mb": BAR_MB,
        "ok": again.megabytes() <= BAR_MB,
    }


# --- the objects ------------------------------------------------------------------------------------------------------


async def populate(server: ApiServer) -> None:
    bodies: list[tuple[Kind, Body]] = []
    for number in range(N_DATABASES):
        spec = {"store": {"url": f"s3://bench/db-{number}"}}
        bodies.append((DATABASES, _object(DATABASES, f"db-{number}", spec)))
    for number in range(N_CHECKPOINTS):
        reference = {"name": f"db-{number % N_DATABASES}"}
        bodies.append((CHECKPOINTS, _object(CHECKPOINTS, f"checkpoint-{number}", {"databaseRef": reference})))

    async def create(requests: Requests, each: tuple[Kind, Body]) -> None:
        await requests.create(Place(each[0], NAMESPACE), each[1])

    await _for_each(server, bodies, create)


async def roll_out(server: ApiServer) -> None:
    """Do what the controllers of a cluster would: say that all pods run, as soon as there are Deployments."""
    deadline, done = time.monotonic() + LONGEST, set()

    async def mark(requests: Requests, body: Body) -> None:
        count = body["spec"]["replicas"]
        status = {
            "observedGeneration": body["metadata"]["generation"],
            **dict.fromkeys(("replicas", "updatedReplicas", "readyReplicas", "availableReplicas"), count),
        }
        await requests.patch(Place.of(DEPLOYMENTS, key_of(body), "status"), MERGE, {"status": status})

    while await count_ready(server) < N_DATABASES + N_CHECKPOINTS and time.monotonic() < deadline:
        found = await _all(server, DEPLOYMENTS)
        fresh = [body for body in found if (body["metadata"]["name"], body["metadata"]["generation"]) not in done]
        await _for_each(server, fresh, mark)
        done |= {(body["metadata"]["name"], body["metadata"]["generation"]) for body in fresh}
        await asyncio.sleep(0.5)


async def count_ready(server: ApiServer) -> int:
    bodies = [*await _all(server, DATABASES), *await _all(server, CHECKPOINTS)]
    judged = [each for body in bodies for each in (body.get("status") or {}).get("conditions") or ()]
    return sum(each["type"] == "Ready" and each["status"] == "True" for each in judged)


async def _all(server: ApiServer, kind: Kind) -> list[Body]:
    requests = Requests(await connect(str(server.kubeconfig)))
    try:
        return [body async for body in requests.list(Place(kind, NAMESPACE))]
    finally:
        await requests.close()


async def _for_each(server: ApiServer, items: Iterable[Any], work: Callable[[Requests, Any], Awaitable[None]]) -> None:
    requests, gate = Requests(await connect(str(server.kubeconfig))), asyncio.Semaphore(AT_ONCE)

    async def one(item: Any) -> None:
        async with gate:
            await work(requests, item)

    try:
        await asyncio.gather(*map(one, items))
    finally:
        await requests.close()


def _object(kind: Kind, name: str, spec: Body) -> Body:
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": metadata, "spec": spec}


# --- the operator as a process of its own -------------------------------------------------------------------------------

QUIET = 3.0


class Operator:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self._process = psutil.Process(process.pid)
        self._port = int(process.stdout.readline())

    def numbers(self) -> dict[str, float]:
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}

    def megabytes(self) -> float:
        return float(self._process.memory_info().rss / 1e6)


@contextmanager
def operator(server: ApiServer) -> Iterator[Operator]:
    command = [sys.executable, "-m", "bench.controller", str(server.kubeconfig)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield Operator(process)
    finally:
        process.terminate()
        process.wait(60)


def settled(operator: Operator) -> dict[str, float]:
    """The numbers when nothing has been looked at for a while, although everything was once."""
    deadline, last, since = time.monotonic() + LONGEST, -1.0, time.monotonic()
    while time.monotonic() < deadline:
        numbers = operator.numbers()
        looks = total(numbers, "slatekeeper_reconciles_total")
        waiting = numbers["slatekeeper_queue_waiting"] + numbers["slatekeeper_queue_working"]
        if looks != last or waiting or looks < N_DATABASES + N_CHECKPOINTS:
            last, since = looks, time.monotonic()
        if time.monotonic() - since > QUIET:
            return numbers
        time.sleep(0.25)
    raise SystemExit(f"the operator did not settle in {LONGEST:.0f} s")


def total(numbers: dict[str, float], name: str, **labels: str) -> float:
    wanted = [f'{label}="{value}"' for label, value in labels.items()]
    return sum(value for key, value in numbers.items() if key.startswith(name) and all(each in key for each in wanted))


def calls(numbers: dict[str, float]) -> float:
    return total(numbers, "slatekeeper_api_requests_total")


def by_verb(numbers: dict[str, float]) -> Counter[str]:
    found: Counter[str] = Counter()
    for key, value in numbers.items():
        if match := re.match(r'slatekeeper_api_requests_total\{.*resource="(.*?)",verb="(.*?)"', key):
            found[f"{match[2]} {match[1]}"] += int(value)
    return found


async def serve(kubeconfig: str) -> None:
    """The child: the operator as it is, but for databases that answer at once."""
    logs.set_up("warning", "human")
    settings = Settings(image="bench/slate:1", namespaces=(NAMESPACE,), namespace=NAMESPACE, lease="", health_port=0)
    databases = InstantDatabases(everything=True)
    configuration = await connect(kubeconfig)
    service = Service(settings, configuration, reconcilers, SystemClock(), databases=databases, host="127.0.0.1")
    task = asyncio.create_task(service.run(asyncio.Event()))
    while not service.probes.port:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    print(service.probes.port, flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
