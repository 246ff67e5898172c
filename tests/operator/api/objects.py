"""Objects of our kinds as a user would write them, and the API server as a program sees it."""

from __future__ import annotations

from typing import Any

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException

from slate_operator.api.resource import Resource
from slate_operator.names import API_VERSION, GROUP, VERSION
from tests.cluster.tool.apiserver import ApiServer

Body = dict[str, Any]


def body(kind: type[Resource], spec: Body, name: str = "one", **metadata: Any) -> Body:
    return {
        "apiVersion": API_VERSION,
        "kind": kind.definition.kind,
        "metadata": {"name": name, **metadata},
        "spec": spec,
    }


class Refused(Exception):
    """What the API server said when it did not take an object."""


class Objects:
    """Objects of our kinds in one namespace, strictly validated."""

    def __init__(self, server: ApiServer, namespace: str = "default") -> None:
        self._namespace = namespace
        self._api = client.CustomObjectsApi(config.new_client_from_config(str(server.kubeconfig)))

    def create(self, kind: type[Resource], made: Body, *, dry: bool = False) -> Body:
        return self._call("create_namespaced", kind, body=made, dry=dry, field_validation="Strict")

    def replace(self, kind: type[Resource], changed: Body, *, dry: bool = False) -> Body:
        name = changed["metadata"]["name"]
        return self._call("replace_namespaced", kind, name=name, body=changed, dry=dry, field_validation="Strict")

    def get(self, kind: type[Resource], name: str) -> Body:
        return self._call("get_namespaced", kind, name=name)

    def find(self, kind: type[Resource], name: str) -> Body | None:
        try:
            return self.get(kind, name)
        except ApiException as error:
            if error.status == 404:
                return None
            raise

    def set_status(self, kind: type[Resource], name: str, status: Body) -> Body:
        changed = {**self.get(kind, name), "status": status}
        return self._call("replace_namespaced", kind, "_status", name=name, body=changed)

    def delete(self, kind: type[Resource], name: str) -> None:
        self._call("delete_namespaced", kind, name=name)

    def delete_all(self, kind: type[Resource]) -> None:
        """Whatever holds them."""
        for found in self._call("list_namespaced", kind)["items"]:
            if found["metadata"].get("finalizers"):
                self.release(kind, found["metadata"]["name"])
            if "deletionTimestamp" not in found["metadata"]:
                self.delete(kind, found["metadata"]["name"])

    def release(self, kind: type[Resource], name: str) -> None:
        """Take off all finalizers."""
        self._call("patch_namespaced", kind, name=name, body={"metadata": {"finalizers": []}})

    def _call(self, verb: str, kind: type[Resource], part: str = "", *, dry: bool = False, **arguments: Any) -> Body:
        method = getattr(self._api, f"{verb}_custom_object{part}")
        if dry:
            arguments["dry_run"] = "All"
        try:
            answer: Body = method(GROUP, VERSION, self._namespace, kind.definition.plural, **arguments)
        except ApiException as error:
            if error.status in (400, 422):
                raise Refused(error.body) from None
            raise
        return answer
