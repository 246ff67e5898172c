"""A cluster of ours does what any does: the engine's pods run in it, and its rules hold."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

from tests.cluster import pods
from tests.cluster.fixtures import Bucket, Namespace
from tests.cluster.tool import addons, images
from tests.cluster.tool.kubectl import until
from tests.cluster.tool.report import ClusterError

pytestmark = pytest.mark.cluster

# Reaching a Service for the first time may take a moment: its rules follow the pod's readiness.
FETCH = """
import sys, time, urllib.request
for attempt in range(int(sys.argv[2])):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=2).status)
        break
    except OSError as error:
        print("again:", error, file=sys.stderr)
        time.sleep(0.25)
else:
    raise SystemExit("not reached")
"""


def test_a_pod_writes_a_database_that_another_one_reads(namespace: Namespace, s3_bucket: Bucket) -> None:
    """Through DNS and a Service to a real S3 server, as nobody in particular and on a read-only root."""
    place = ["--store", s3_bucket.url, "--path", "orders"]
    namespace.apply(pods.pod("writer", ["slate", *place, "put", "order:1", "shipped"], env=s3_bucket.env()))
    pods.outcome(namespace, "writer")
    namespace.apply(pods.pod("reader", ["slate", *place, "get", "order:1"], env=s3_bucket.env()))
    assert "shipped" in pods.outcome(namespace, "reader")


def test_the_image_brings_its_kernels_compiled(namespace: Namespace) -> None:
    program = """
import runpy
runpy.run_path("/opt/slatekeeper/warm.py")
from slate_engine.format.kernel import compilations
print("compiled here:", compilations())
"""
    namespace.apply(pods.python("warm", program))
    assert "compiled here: 0" in pods.outcome(namespace, "warm")


def test_the_image_says_what_it_lacks_without_a_writable_folder(namespace: Namespace) -> None:
    manifest = pods.pod("dry", ["slate", "--help"])
    manifest["spec"]["containers"][0]["volumeMounts"] = []
    namespace.apply(manifest)
    with pytest.raises(AssertionError, match="mount an emptyDir"):
        pods.outcome(namespace, "dry")


def test_a_volume_outlives_its_pod_and_goes_with_its_claim(namespace: Namespace) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    namespace.apply({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim})
    volumes = {"/data": {"persistentVolumeClaim": {"claimName": "data"}}}
    namespace.apply(pods.pod("first", ["sh", "-c", "echo kept > /data/file"], volumes=volumes))
    pods.outcome(namespace, "first")
    namespace("delete", "pod", "first")
    namespace.apply(pods.pod("second", ["cat", "/data/file"], volumes=volumes))
    assert pods.outcome(namespace, "second") == "kept\n"

    volume = namespace("get", "pvc/data", "-o", "jsonpath={.spec.volumeName}")
    namespace("delete", "pod/second", "pvc/data")
    assert until(lambda: not namespace.kubectl.answers("get", f"pv/{volume}"), timeout=20), "the volume stays"


def test_logs_exec_and_port_forward(namespace: Namespace) -> None:
    namespace.apply(*pods.web("web"))
    namespace.kubectl.wait("condition=Ready", "pod/web", "-n", namespace.name)
    assert namespace("exec", "web", "--", "id", "-u") == "65532\n"
    with forwarded(namespace, "service/web", 80) as port:
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10).status == 200
    assert until(lambda: '"GET / HTTP/1.1" 200' in namespace("logs", "web"), timeout=10)


@contextlib.contextmanager
def forwarded(namespace: Namespace, target: str, port: int) -> Iterator[int]:
    process = namespace.kubectl.start("-n", namespace.name, "port-forward", target, f":{port}")
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"Forwarding from 127\.0\.0\.1:(\d+)", line)
        assert found is not None, f"port-forward said {line!r}"
        yield int(found[1])
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=10)


def test_services_are_found_by_short_and_full_names(namespace: Namespace) -> None:
    namespace.apply(*pods.web("web"))
    for number, name in enumerate(["web", f"web.{namespace.name}", f"web.{namespace.name}.svc.cluster.local"]):
        namespace.apply(pods.pod(f"client-{number}", ["python", "-c", FETCH, f"http://{name}/", "40"]))
    for number in range(3):
        assert pods.outcome(namespace, f"client-{number}").endswith("200\n")


def test_a_policy_keeps_out_whom_it_does_not_name(namespace: Namespace) -> None:
    """Both ways at once: the friend gets through, so the network works; the stranger does not, so the policy does."""
    friends = {
        "podSelector": {"matchLabels": {"app": "web"}},
        "policyTypes": ["Ingress"],
        "ingress": [{"from": [{"podSelector": {"matchLabels": {"role": "friend"}}}], "ports": [{"port": "main"}]}],
    }
    namespace.apply(policy("web", friends), *pods.web("web"))
    namespace.kubectl.wait("condition=Ready", "pod/web", "-n", namespace.name)
    url = f"http://web.{namespace.name}/"
    namespace.apply(
        pods.pod("friend", ["python", "-c", FETCH, url, "40"], labels={"role": "friend"}),
        pods.pod("stranger", ["python", "-c", FETCH, url, "4"]),
    )
    assert pods.outcome(namespace, "friend").endswith("200\n")
    with pytest.raises(AssertionError, match="not reached"):
        pods.outcome(namespace, "stranger")


def test_a_policy_keeps_in_and_its_removal_lets_out(namespace: Namespace) -> None:
    """Denied egress does not even reach DNS, unless a second policy names it as charts do."""
    namespace.apply(*pods.web("web"), pods.pod("client", ["sleep", "600"]))
    namespace.kubectl.wait("condition=Ready", "pod/web", "pod/client", "-n", namespace.name)

    address = namespace("get", "service/web", "-o", "jsonpath={.spec.clusterIP}")

    def reaches() -> bool:
        program = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=2)"
        with contextlib.suppress(ClusterError):
            namespace("exec", "client", "--", "python", "-c", program, f"http://{address}/")
            return True
        return False

    def resolves() -> bool:
        with contextlib.suppress(ClusterError):
            namespace("exec", "client", "--", "timeout", "3", "getent", "hosts", "web")
            return True
        return False

    assert until(reaches, timeout=20)
    client = {"podSelector": {"matchLabels": {"app": "client"}}, "policyTypes": ["Egress"]}
    namespace.apply(policy("nothing", client))
    assert until(lambda: not reaches(), timeout=20)
    assert not resolves()

    dns = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    namespace.apply(policy("dns", {**client, "egress": [{"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}]}]}))
    assert until(resolves, timeout=20)
    assert not reaches()

    namespace("delete", "networkpolicy", "nothing", "dns")
    assert until(reaches, timeout=20)


def policy(name: str, spec: Mapping[str, object]) -> dict[str, object]:
    return {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": name}, "spec": spec}


def test_a_service_account_may_do_what_its_role_says_and_no_more(namespace: Namespace) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "reader"}}
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": "reader"},
        "rules": rules,
    }
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "reader"}],
    }
    program = """
import json, ssl, sys, urllib.error, urllib.request
folder = "/var/run/secrets/kubernetes.io/serviceaccount/"
trust = ssl.create_default_context(cafile=folder + "ca.crt")
def status(kind):
    url = f"https://kubernetes.default.svc/api/v1/namespaces/{sys.argv[1]}/{kind}"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + open(folder + "token").read()})
    try:
        return urllib.request.urlopen(request, context=trust, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code
print(json.dumps([status("configmaps"), status("secrets")]))
"""
    asker = pods.pod("asker", ["python", "-c", program, namespace.name])
    asker["spec"] |= {"serviceAccountName": "reader", "automountServiceAccountToken": True}
    namespace.apply(account, role, binding, asker)
    assert json.loads(pods.outcome(namespace, "asker").splitlines()[-1]) == [200, 403]


def test_the_restricted_level_keeps_a_careless_pod_out(namespace: Namespace) -> None:
    careless = pods.pod("root", ["id"])
    careless["spec"]["securityContext"] = {"runAsUser": 0}
    with pytest.raises(ClusterError, match="violates PodSecurity"):
        namespace.apply(careless)


def test_helm_installs_and_removes(
    namespace: Namespace, helm: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert callable(helm)
    chart = tmp_path_factory.mktemp("chart")
    (chart / "Chart.yaml").write_text("apiVersion: v2\nname: tiny\nversion: 0.1.0\n")
    (chart / "templates").mkdir()
    (chart / "templates" / "map.yaml").write_text(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {said: {{ .Values.word }}}\n"
    )
    helm("install", "greeting", chart, "--namespace", namespace.name, "--set", "word=hello")
    assert namespace("get", "configmap/greeting", "-o", "jsonpath={.data.said}") == "hello"
    helm("uninstall", "greeting", "--namespace", namespace.name)
    assert not namespace.kubectl.answers("get", "configmap/greeting", "-n", namespace.name)


def test_the_s3_server_keeps_its_buckets_on_a_volume(namespace: Namespace, s3_bucket: Bucket) -> None:
    kubectl = namespace.kubectl
    kubectl("rollout", "restart", "deployment/s3", "-n", addons.S3_NAMESPACE)
    kubectl("rollout", "status", "deployment/s3", "-n", addons.S3_NAMESPACE, "--timeout=60s")
    listed = kubectl("exec", "deployment/s3", "-n", addons.S3_NAMESPACE, "--", "ls", addons.S3_FOLDER)
    assert s3_bucket.name in listed.split()


def test_a_pod_whose_image_is_not_loaded_says_so(namespace: Namespace) -> None:
    """There is no registry to ask, so what was not loaded must not look as if it were on its way."""
    manifest = pods.pod("lost", ["true"])
    manifest["spec"]["containers"][0]["image"] = images.tag("not-built")
    namespace.apply(manifest)
    reason = ("get", "pod/lost", "-o", "jsonpath={.status.containerStatuses[0].state.waiting.reason}")
    assert until(lambda: namespace(*reason) in ("ErrImagePull", "ImagePullBackOff"), timeout=40)
