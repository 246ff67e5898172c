"""What the controllers need of the API server, and nothing else of Kubernetes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from slate_operator.names import API_VERSION

Body = dict[str, Any]
"""An object as the API server has it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects, as the API server addresses it."""

    api_version: str
    kind: str
    plural: str


DATABASES = Kind(API_VERSION, "SlateDatabase", "slatedatabases")
CHECKPOINTS = Kind(API_VERSION, "Checkpoint", "checkpoints")
CLONES = Kind(API_VERSION, "Clone", "clones")
SCHEDULES = Kind(API_VERSION, "CheckpointSchedule", "checkpointschedules")
BULK_READS = Kind(API_VERSION, "BulkRead", "bulkreads")
DEPLOYMENTS = Kind("apps/v1", "Deployment", "deployments")
SERVICES = Kind("v1", "Service", "services")
SECRETS = Kind("v1", "Secret", "secrets")
CONFIG_MAPS = Kind("v1", "ConfigMap", "configmaps")
SERVICE_ACCOUNTS = Kind("v1", "ServiceAccount", "serviceaccounts")
PODS = Kind("v1", "Pod", "pods")
NAMESPACES = Kind("v1", "Namespace", "namespaces")
NETWORK_POLICIES = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
ROLE_BINDINGS = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
JOBS = Kind("batch/v1", "Job", "jobs")
POD_MONITORS = Kind("monitoring.coreos.com/v1", "PodMonitor", "podmonitors")
SPARK_APPLICATIONS = Kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications")


@dataclass(frozen=True, slots=True)
class Key:
    """Which object of a kind."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Conflict(Exception):
    """The object has changed since it was read; look again."""


class Refused(Exception):
    """The API server does not take this, and would not take it again either: its message says why.

    ``reason`` is the server's word for it: ``Invalid``, ``Forbidden``, ``NamespaceTerminating`` …
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class NameTaken(Refused):
    """Something that is not ours has the name of what is to be made, and stays as it is."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "NameTaken")


class LeftBehind(Refused):
    """What is to be made has the name of something that an owner of the same name has left, and that is about to go."""

    def __init__(self, message: str) -> None:
        super().__init__(message, "LeftBehind")


class Unreachable(Exception):
    """The API server does not answer, or asks to be left alone for a while. Try again later."""


class Cluster(Protocol):
    """Reads come from a cache that watches fill, where the kind is watched; everything else is one request."""

    async def get(self, kind: Kind, key: Key) -> Body | None:
        """The object, or None if there is none."""

    async def list(self, kind: Kind, namespace: str, labels: Mapping[str, str] | None = None) -> Sequence[Body]:
        """All objects of a namespace that have the labels."""

    async def version(self, kind: Kind, key: Key) -> str | None:
        """The resource version alone. The contents never leave the API server: this is how Secrets are looked at."""

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows the kind."""

    async def apply(self, kind: Kind, body: Body) -> Body:
        """Make the object so, by server-side apply. Not sent if it was applied just so before and stands unchanged.
        :class:`NameTaken` if there is one of its name that is somebody else's, :class:`LeftBehind` if that is to go."""

    async def create(self, kind: Kind, body: Body) -> bool:
        """Make the object if there is none of its name; whether it was made now."""

    async def delete(self, kind: Kind, key: Key, uid: str | None = None) -> None:
        """Delete it, if it is there (and, with a uid, if it is that very one)."""

    async def set_status(self, kind: Kind, key: Key, status: Body) -> None:
        """Let the status be this. Not sent if it is so already."""

    async def set_finalizers(self, kind: Kind, body: Body, finalizers: Sequence[str]) -> None:
        """Let the object have these finalizers, if it has not changed since; :class:`Conflict` otherwise."""

    async def event(self, kind: Kind, body: Body, type: str, reason: str, message: str) -> None:
        """Tell the user that something happened. The same again only counts up."""
