"""Pods as the tests use them: from the engine's own image, and within the restricted Pod Security level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.fixtures import Namespace
from tests.cluster.tool import images
from tests.cluster.tool.kubectl import Manifest


def pod(
    name: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    volumes: Mapping[str, Manifest] | None = None,
    port: int | None = None,
) -> dict[str, Any]:
    """One container of the image ``slate`` that runs ``command`` once. ``volumes`` are sources by where to mount them."""
    mounts = {"/tmp": {"emptyDir": {}}, **(volumes or {})}
    names = {path: f"volume-{number}" for number, path in enumerate(mounts)}
    container: dict[str, Any] = {
        "name": "main",
        "image": images.tag("slate"),
        "args": list(command),
        "env": [{"name": key, "value": value} for key, value in (env or {}).items()],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": names[path], "mountPath": path} for path in mounts],
    }
    if port is not None:
        container["ports"] = [{"name": "main", "containerPort": port}]
        container["readinessProbe"] = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name, **(labels or {})}},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": False,
            "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [container],
            "volumes": [{"name": names[path], **source} for path, source in mounts.items()],
        },
    }


def python(name: str, program: str, **rest: Any) -> dict[str, Any]:
    return pod(name, ["python", "-c", program], **rest)


def web(name: str, **rest: Any) -> list[dict[str, Any]]:
    """A web server that answers on port 8080, and a Service of the same name for it."""
    server = pod(name, ["python", "-m", "http.server", "--directory", "/opt", "8080"], port=8080, **rest)
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    service = {"selector": {"app": name}, "ports": ports}
    return [server, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": service}]


def outcome(namespace: Namespace, name: str, *, timeout: float = 90.0) -> str:
    """What a pod wrote until it ended well; one that ended badly fails the test with what it wrote."""
    code = "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}"
    namespace.kubectl.wait(code, f"pod/{name}", "-n", namespace.name, timeout=timeout)
    written, ended = namespace("logs", name), namespace("get", f"pod/{name}", "-o", code)
    assert ended == "0", f"pod {name} ended with code {ended}:\n{written}"
    return written
