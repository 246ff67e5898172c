"""A Spark job on Kubernetes, as a value: which database, which program, which pods. Other modules make objects of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slate_operator import names
from slate_operator.api.spark import Spark
from slate_operator.api.store import Store
from slate_operator.kube.cluster import Body, Key, Kind

SETTINGS = "/etc/slate-job/job.yaml"
"""Where a driver finds the settings of its job."""
JOB_FILE = "local:///opt/slatekeeper/job.py"
"""In our image: runs the job that its first argument names."""

SHARED = {names.LABEL_NAME: names.APP, names.LABEL_MANAGED_BY: names.MANAGED_BY, names.LABEL_COMPONENT: "spark"}
"""Labels of everything that is made for Spark jobs."""


@dataclass(frozen=True, slots=True)
class RunId:
    """One attempt of a job, by name. ``family`` is what the names of all its attempts begin with."""

    namespace: str
    family: str
    attempt: int
    owner: Mapping[str, Any]
    """The owner reference of everything that is made."""

    @property
    def name(self) -> str:
        """Of the object that starts it."""
        return f"{self.family}-{self.attempt}"

    @property
    def driver_pod(self) -> str:
        return f"{self.name}-driver"

    @property
    def labels(self) -> dict[str, str]:
        return {**SHARED, names.LABEL_SPARK: self.name}

    @property
    def pod_labels(self) -> dict[str, str]:
        return {**self.labels, names.LABEL_OWNER: str(self.owner["uid"])}

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    def object(self, kind: Kind, name: str, rest: Mapping[str, Any], **metadata: Any) -> Body:
        labels = self.labels if name == self.name else SHARED
        whole = {"name": name, "namespace": self.namespace, "labels": labels, "ownerReferences": [dict(self.owner)]}
        return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {**whole, **metadata}, **rest}


@dataclass(frozen=True, slots=True)
class SparkRun(RunId):
    """One attempt, with all that it is made of."""

    store: Store
    spark: Spark
    image: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What the job is told in its file."""
    main_file: str = JOB_FILE
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    sink_secret: str | None = None

    @property
    def service_account(self) -> str:
        """The one that the store knows, if it knows one by name."""
        return self.spark.service_account_name or self.store.service_account_name or self.family
