"""How a Spark job is run: its image, its pods, and who starts it."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from slate_operator.api.model import Free, Model, Name
from slate_operator.api.rule import rule, rules

Heap = Annotated[str, Field(pattern=r"^[1-9][0-9]*[mg]$", max_length=16)]
"""An amount of memory as Spark writes it: ``512m``, ``4g``."""

Cpu = Annotated[str, Field(pattern=r"^([1-9][0-9]*m?|[0-9]+\.[0-9]+)$", max_length=16)]
"""An amount of processors as Kubernetes writes it: ``500m``, ``2``."""


class SparkPod(Model):
    """The driver, or one of the executors."""

    cores: int = Field(
        default=1, ge=1, le=256, description="How many tasks run at a time; so many processors it asks for."
    )
    core_request: Cpu | None = Field(
        default=None,
        description="The processors that it asks for, if these are not as many as cores.",
        examples=["500m"],
    )
    memory: Heap = Field(default="1g", description="Java's heap.", examples=["4g"])
    memory_overhead: Heap = Field(
        default="1g",
        description="What it has besides Java's heap. Python, which reads and writes the rows, takes its memory from here.",
    )
    pod_template: Free = Field(
        default_factory=dict,
        description="A pod template laid over the one that is made: labels, node selector, tolerations, volumes. The "
        "container is spark-kubernetes-driver or spark-kubernetes-executor.",
    )


class Executors(SparkPod):
    """The pods that do the work."""

    instances: int = Field(default=2, ge=1, le=10_000, description="How many.")


class Spark(Model):
    """How the Spark job is run."""

    image: str | None = Field(
        default=None,
        max_length=512,
        description="The image of the driver and the executors. By default the one that the operator was told.",
    )
    launcher: Literal["Auto", "SparkOperator", "Submit"] = Field(
        default="Auto",
        description="SparkOperator: a SparkApplication of Kubeflow's Spark operator. Submit: a Job that runs spark-submit. "
        "Auto: the former where its CRD is installed, else the latter.",
    )
    service_account_name: Name | None = Field(
        default=None,
        description="The service account of its pods, made by you; it needs the rights of a Spark driver, and access to "
        "the store if no Secret gives that. By default the database's own store.serviceAccountName, else one is made.",
    )
    conf: dict[str, str] = Field(
        default_factory=dict,
        max_length=128,
        description="Configuration of Spark, such as spark.sql.shuffle.partitions.",
        json_schema_extra=rules(
            rule(
                "self.all(name, name.startsWith('spark.') && "
                "!name.matches('(?i)(secret|password|token|(access|account)[.]?key)'))",
                "names of conf begin with `spark.`, and none of them holds a secret, for everybody who sees this object "
                "reads it; credentials of the store come from its Secret",
            )
        ),
    )
    driver: SparkPod = Field(default_factory=SparkPod, description="The process that plans.")
    executor: Executors = Field(default_factory=Executors, description="The processes that do the work.")
