"""What Argo CD, Flux and `kubectl wait` make of our objects: in each situation, the same truth.

Argo CD's scripts are run by Lua 5.1, its own dialect. What Flux does is asked twice: by the rules of kstatus, written down
here as its library has them, and by our expressions, which the real API server evaluates as CEL.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from lupa.lua51 import LuaRuntime

from slate_operator.api import crd
from slate_operator.api.crd import KINDS
from slate_operator.api.database import SlateDatabase
from slate_operator.names import API_VERSION
from tests.cluster.tool.apiserver import ApiServer
from tests.cluster.tool.report import ClusterError
from tests.operator.api.objects import Objects, body
from tests.operator.gitops.situations import SITUATIONS, Body, Situation

EXAMPLES = Path(__file__).parents[3] / "examples" / "gitops"
EACH = pytest.mark.parametrize("situation", SITUATIONS, ids=lambda situation: situation.what)


@pytest.fixture(scope="module")
def scripts() -> dict[str, str]:
    data: dict[str, str] = yaml.safe_load((EXAMPLES / "argocd-health.yaml").read_text())["data"]
    return data


@EACH
def test_argo_cd_sees_its_health(scripts: dict[str, str], situation: Situation) -> None:
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False, register_builtins=False)
    lua.globals().obj = lua.table_from(situation.body, recursive=True)
    found = dict(lua.execute(scripts[f"resource.customizations.health.slatekeeper.io_{situation.body['kind']}"]))
    assert found["status"] == situation.argo
    assert situation.message in found["message"]


def test_every_kind_has_a_script(scripts: dict[str, str]) -> None:
    assert set(scripts) == {f"resource.customizations.health.slatekeeper.io_{kind.definition.kind}" for kind in KINDS}


@EACH
def test_kstatus_needs_no_explanation(situation: Situation) -> None:
    assert kstatus(situation.body) == situation.kstatus
    if situation.kstatus == "Current" and situation.body.get("status", {}).get("conditions"):
        assert situation.ready


def kstatus(body: Body) -> str:
    """What sigs.k8s.io/cli-utils computes for a kind that it does not know."""
    metadata, status = body["metadata"], body.get("status", {})
    if metadata.get("deletionTimestamp"):
        return "Terminating"
    if "observedGeneration" in status and status["observedGeneration"] != metadata["generation"]:
        return "InProgress"
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


# --- Flux, with our expressions -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def questions(apiserver: ApiServer) -> ApiServer:
    """A kind whose rules are Flux's expressions turned around: an object is refused with those that are true of it."""
    (asked,) = yaml.safe_load((EXAMPLES / "flux.yaml").read_text())["spec"]["healthCheckExprs"]
    assert (asked["apiVersion"], asked["kind"]) == (API_VERSION, "SlateDatabase")
    fields = re.compile(r"(?<![.a-z])(?=(status|metadata)[.])")
    rules = [
        {"rule": f"!({fields.sub('self.', asked[name])})", "message": f"it is {name}"}
        for name in ("inProgress", "failed", "current")
    ]
    metadata = {"type": "object", "properties": {"generation": {"type": "integer"}}}
    status = crd.root(SlateDatabase)["properties"]["status"]
    spec = {"type": "object", "properties": {"metadata": metadata, "status": status}, "x-kubernetes-validations": rules}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    group = "flux.tests.slatekeeper.io"
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"questions.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "Question", "plural": "questions", "singular": "question"},
            "versions": [version],
        },
    }
    apiserver.kubectl.apply([definition])
    apiserver.kubectl.wait("condition=Established", f"crd/questions.{group}", timeout=20)
    return apiserver


def test_flux_sees_it_with_our_expressions(questions: ApiServer) -> None:
    asked = [each for each in SITUATIONS if each.flux is not None]
    bodies = [
        {
            "apiVersion": "flux.tests.slatekeeper.io/v1",
            "kind": "Question",
            "metadata": {"name": f"q{number}"},
            "spec": {"metadata": {"generation": each.body["metadata"]["generation"]}, "status": each.body["status"]},
        }
        for number, each in enumerate(asked)
    ]
    # One that nothing can be said of is in progress too; Flux goes on waiting.
    with pytest.raises(ClusterError) as refused:
        questions.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump_all(bodies))
    said = str(refused.value)
    for number, each in enumerate(asked):
        line = next((line for line in said.splitlines() if f'"q{number}"' in line), "")
        answers = [name for name in ("inProgress", "failed", "current") if f"it is {name}" in line]
        first = {"inProgress": "InProgress", "failed": "Failed", "current": "Current"}[(answers or ["inProgress"])[0]]
        assert first == each.flux, f"{each.what}: {line}"


# --- kubectl wait -------------------------------------------------------------------------------------------------


def test_kubectl_waits_for_what_is_true(kinds: ApiServer) -> None:
    objects = Objects(kinds)
    objects.create(SlateDatabase, body(SlateDatabase, {"store": {"url": "s3://shop/orders"}}, "waited-for"))
    try:
        with pytest.raises(ClusterError, match="timed out"):
            kinds.kubectl("wait", "sdb/waited-for", "--for=condition=Ready", "--timeout=1s")
        for each in SITUATIONS:
            if each.what == "all is well":
                objects.set_status(SlateDatabase, "waited-for", each.body["status"])
        kinds.kubectl("wait", "sdb/waited-for", "--for=condition=Ready", "--timeout=10s")
    finally:
        objects.delete(SlateDatabase, "waited-for")
