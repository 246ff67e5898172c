"""The chart's rules are all that the operator needs, and no more than it uses: it runs with them on the real API server."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import yaml

from slate_operator.clock import SystemClock
from slate_operator.informer import WATCHED
from slate_operator.kube.cluster import BULK_READS, CHECKPOINTS, CLONES, DATABASES, SCHEDULES, Kind
from slate_operator.kube.requests import connect
from slate_operator.names import API_VERSION
from slate_operator.registry import reconcilers
from slate_operator.service import Service
from slate_operator.settings import Settings
from tests.cluster.tool.apiserver import ApiServer
from tests.operator.edge.instant import InstantDatabases
from tests.operator.edge.test_service import until

CHART = Path(__file__).parents[3] / "charts" / "slatekeeper"

NOT_USED_HERE = {
    **{
        ("delete", resource): "what is no longer wanted goes when its pods have ended; no pods run here"
        for resource in ("deployments", "services", "configmaps", "networkpolicies")
    },
    ("get", "podmonitors"): "no API server here knows PodMonitors",
    ("create", "podmonitors"): "likewise",
    ("patch", "podmonitors"): "likewise",
    ("delete", "podmonitors"): "likewise",
    ("patch", "events"): "when an event is repeated; test_client.py does that",
    ("get", "events"): "when a new process repeats an event of the one before; test_client.py does that",
    ("get", "namespaces"): "when an object is deleted; tests of their lives do that",
    **{
        (verb, "sparkapplications"): "no API server here knows SparkApplications"
        for verb in ("get", "create", "delete")
    },
    **{
        ("delete", resource): "when a Spark job is stopped; test_bulk_read.py does that"
        for resource in ("jobs", "pods", "bulkreads")
    },
    ("bind", "roles"): "is no request: without it the RoleBinding is refused",
}

SPARK_ROLE = "slatekeeper-spark-driver"


class Ahead(SystemClock):
    """Half an hour ahead, so that every schedule is due."""

    def now(self) -> float:
        return time.time() + 1800


def rules(*parts: str) -> list[dict[str, Any]]:
    """Those of the chart, for one namespace; what they hold of templates is the kind and the name of one role."""
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    parsed: list[dict[str, Any]] = []
    for part in parts or ("rules", "sparkRules"):
        found = re.search(rf'define "slatekeeper\.{part}" -}}}}\n(.*?){{{{- end }}}}', text, re.DOTALL)
        assert found is not None
        plain = re.sub(r"{{ ternary [^}]*}}", "roles", found[1])
        parsed += yaml.safe_load(re.sub(r'{{ include "slatekeeper.sparkRole" . }}', SPARK_ROLE, plain))
    return parsed


def granted() -> set[tuple[str, str]]:
    return {(verb, resource) for rule in rules() for verb in rule["verbs"] for resource in rule["resources"]}


def test_no_rule_is_wider_than_a_name() -> None:
    for rule in rules():
        assert "*" not in [*rule["verbs"], *rule["resources"], *rule["apiGroups"]]
    assert not {("list", "secrets"), ("watch", "secrets"), ("delete", "secrets")} & granted()


async def test_with_these_rights_in_one_namespace_everything_works_and_none_is_idle(
    kinds: ApiServer, place: str, tmp_path: Path
) -> None:
    kubeconfig = account(kinds, place, tmp_path)
    kinds.kubectl.apply(objects(place), namespace=place)
    settings = Settings(
        image="slate:1",
        spark_image="spark:1",
        spark_role=f"Role/{SPARK_ROLE}",
        namespaces=(place,),
        namespace=place,
        identity="one",
        lease="slatekeeper",
        health_port=0,
    )
    service = Service(
        settings, await connect(str(kubeconfig)), reconcilers, Ahead(), databases=InstantDatabases(), host="127.0.0.1"
    )
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    try:
        await until(lambda: task.done() or ready(service, CHECKPOINTS, "one"), 60)
        await until(lambda: task.done() or any(used(service, "delete", "checkpoints")), 60)
        await until(lambda: task.done() or any(used(service, "create", "slatedatabases")), 60)
        await until(lambda: task.done() or any(used(service, "create", "jobs")), 60)
        await until(lambda: service.queue.idle, 60)
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await task
    counted = numbers(service)
    assert {(verb, resource) for verb, resource, code in counted if code == "403"} == set()
    watched = {(verb, kind.plural) for kind in WATCHED for verb in ("list", "watch")}
    asked = {(verb, resource) for verb, resource, _ in counted}
    # To apply what is not there yet is a patch that also needs the right to create.
    applied = {("create", resource) for verb, resource in asked if verb == "patch"}
    idle = granted() - asked - watched - applied
    assert sorted(idle - set(NOT_USED_HERE)) == [], (
        "what is granted and not used has to be taken away, or explained here"
    )
    assert sorted(set(NOT_USED_HERE) - granted()) == [], "what is explained here is not granted any more"


async def test_where_spark_is_switched_off_a_bulk_read_says_so_and_can_be_deleted(
    kinds: ApiServer, place: str, tmp_path: Path
) -> None:
    kubeconfig = account(kinds, place, tmp_path, "rules")
    kinds.kubectl.apply(objects(place), namespace=place)
    settings = Settings(image="slate:1", namespaces=(place,), namespace=place, lease="", health_port=0)
    service = Service(
        settings, await connect(str(kubeconfig)), reconcilers, Ahead(), databases=InstantDatabases(), host="127.0.0.1"
    )
    stop = asyncio.Event()
    task = asyncio.create_task(service.run(stop))
    read = ("bulkread/lake", "-n", place)
    try:
        await asyncio.to_thread(kinds.kubectl.wait, "condition=Ready=False", *read, timeout=30)
        told = kinds.kubectl.get(*read)
        assert "forbidden" in told["status"]["conditions"][0]["message"]
        assert told["metadata"]["finalizers"]
        kinds.kubectl("delete", *read, "--wait=false")
        await until(lambda: not kinds.kubectl.answers("get", *read), 30)
    finally:
        stop.set()
        async with asyncio.timeout(60):
            await task


def objects(place: str) -> list[dict[str, Any]]:
    reference = {"databaseRef": {"name": "orders"}}
    store = {"url": "s3://shop/orders", "secretRef": {"name": "keys"}}
    schedule = {"schedule": "*/5 * * * *", "successfulHistoryLimit": 0, "template": {"spec": reference}}
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"A": "b"}},
        made(DATABASES, "orders", {"store": store, "readers": {"replicas": 1}}),
        made(CHECKPOINTS, "one", reference),
        made(CLONES, "copy", {"source": reference, "template": {"spec": {}}}),
        made(SCHEDULES, "often", schedule),
        made(BULK_READS, "lake", {**reference, "sink": {"url": "s3://lake/a"}, "spark": {"launcher": "Submit"}}),
    ]


def made(kind: Kind, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": API_VERSION, "kind": kind.kind, "metadata": {"name": name}, "spec": spec}


def account(kinds: ApiServer, place: str, folder: Path, *parts: str) -> Path:
    """A kubeconfig for a service account that has the chart's rules in this namespace, and its Lease, and nothing else."""
    group = "rbac.authorization.k8s.io"
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create", "get", "update"]}
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "it"}, "rules": [*rules(*parts), lease]}
    binding = {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "it"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "it"},
        "subjects": [{"kind": "ServiceAccount", "name": "it", "namespace": place}],
    }
    service_account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "it"}}
    kinds.kubectl.apply([service_account, role, binding], namespace=place)
    config = yaml.safe_load(kinds.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": kinds.kubectl("create", "token", "it", "-n", place).strip()}
    file = folder / "kubeconfig"
    file.write_text(yaml.safe_dump(config))
    return file


def numbers(service: Service) -> dict[tuple[str, str, str], float]:
    samples = next(iter(service.metrics.requests.collect())).samples
    return {
        (sample.labels["verb"], sample.labels["resource"], sample.labels["code"]): sample.value
        for sample in samples
        if sample.name.endswith("_total")
    }


def used(service: Service, verb: str, resource: str) -> list[str]:
    return [code for v, r, code in numbers(service) if (v, r) == (verb, resource)]


def ready(service: Service, kind: Kind, name: str) -> bool:
    for body in service.cache.all(kind):
        conditions = (body.get("status") or {}).get("conditions") or ()
        if body["metadata"]["name"] == name and any(
            each["type"] == "Ready" and each["status"] == "True" for each in conditions
        ):
            return True
    return False
