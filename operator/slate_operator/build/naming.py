"""The names and labels of what is made for a database. All follow from the database's own name and can be foretold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from slate_operator import names
from slate_operator.api.database import SlateDatabase
from slate_operator.kube.cluster import DATABASES, Body, Key, Kind
from slate_operator.names import Role

CONTAINER = "slate"
"""The container that is made; a pod template of the user's may change it under this name."""

SUFFIXES = {Role.WRITER: "writer", Role.READER: "readers", Role.COMPACTOR: "compactor", Role.GC: "gc"}


@dataclass(frozen=True, slots=True)
class Family:
    """One database and what belongs to it, by name."""

    namespace: str
    name: str
    uid: str

    @classmethod
    def of(cls, database: SlateDatabase) -> Family:
        return cls(database.metadata.namespace, database.metadata.name, database.metadata.uid)

    # --- names ---------------------------------------------------------------------------------------------------

    def workload(self, role: str) -> str:
        """Of the Deployment, the ConfigMap and the NetworkPolicy of a role."""
        return f"{self.name}-{SUFFIXES[role]}"

    @property
    def writer_service(self) -> str:
        return self.name

    @property
    def readers_service(self) -> str:
        return f"{self.name}-readers"

    @property
    def admin_service(self) -> str:
        return f"{self.name}-admin"

    @property
    def admin_secret(self) -> str:
        """``token`` is the one to use, ``tokens`` are those that open the door, ``ca.crt`` is whom to trust."""
        return f"{self.name}-admin"

    @property
    def auth_secret(self) -> str:
        """``password`` is the one to use, ``passwords`` are those that open the door."""
        return f"{self.name}-auth"

    @property
    def ca_secret(self) -> str:
        """The authority that signs; no pod has it."""
        return f"{self.name}-ca"

    @property
    def tls_secret(self) -> str:
        """``tls.crt``, ``tls.key`` and ``ca.crt`` of the doors."""
        return f"{self.name}-tls"

    @property
    def service_account(self) -> str:
        return self.name

    @property
    def pod_monitor(self) -> str:
        return self.name

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    # --- labels --------------------------------------------------------------------------------------------------

    @property
    def labels(self) -> dict[str, str]:
        return {
            names.LABEL_NAME: names.APP,
            names.LABEL_INSTANCE: self.name,
            names.LABEL_MANAGED_BY: names.MANAGED_BY,
            names.LABEL_DATABASE: self.name,
        }

    def role_labels(self, role: str) -> dict[str, str]:
        return {**self.labels, names.LABEL_COMPONENT: role, names.LABEL_ROLE: role}

    def selector(self, role: str) -> dict[str, str]:
        """The fewest labels that tell the pods of a role: a Deployment's selector can never be changed."""
        return {names.LABEL_DATABASE: self.name, names.LABEL_ROLE: role}

    # --- objects -------------------------------------------------------------------------------------------------

    @property
    def owner(self) -> Body:
        """The reference of what goes with the database's own object."""
        # Who deletes in the foreground would otherwise have the collector's pod deleted before its work is done.
        return owned_by(DATABASES, self.name, self.uid)

    def object(
        self, kind: Kind, name: str, rest: Mapping[str, Any], *, role: str = "", annotations: Mapping[str, str] = {}
    ) -> Body:
        """An object of the database. It goes when the database's own object goes, and never holds that up."""
        metadata: Body = {
            "name": name,
            "namespace": self.namespace,
            "labels": self.role_labels(role) if role else self.labels,
            "ownerReferences": [self.owner],
        }
        if annotations:
            metadata["annotations"] = dict(annotations)
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


def owned_by(kind: Kind, name: str, uid: str) -> Body:
    """A reference that lets its owner go first."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
