"""SlateDatabase: one database, and the pods that serve and care for it."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from slate_operator.api.bootstrap import Bootstrap
from slate_operator.api.conditions import Conditions
from slate_operator.api.definition import READY, REASON, Column, Definition, Scale
from slate_operator.api.model import Duration, Free, Model, Observed, Size, Time
from slate_operator.api.place import name_of_services
from slate_operator.api.resource import Resource
from slate_operator.api.rule import rule, rules
from slate_operator.api.spark import Spark
from slate_operator.api.store import SecretKey, Store


class Pods(Model):
    """What all pods of the database can be told."""

    resources: Free = Field(default_factory=dict, description="Requests and limits of the container, as in any pod.")
    pod_template: Free = Field(
        default_factory=dict,
        description="A pod template laid over the one that is made: labels, annotations, node selector, tolerations, "
        "affinity, more containers. Its container `slate` is the one that is made.",
    )


class ServiceShape(Model):
    """The Service of the Redis protocol."""

    type: Literal["ClusterIP", "NodePort", "LoadBalancer"] = Field(
        default="ClusterIP", description="The Service's type."
    )
    annotations: dict[str, str] = Field(default_factory=dict, description="Its annotations.")


class Auth(Model):
    """Who may speak the Redis protocol to the database."""

    secret_ref: SecretKey | None = Field(
        default=None,
        description="Passwords, one a line. By default one is made, in the Secret NAME-auth.",
    )
    tls: bool = Field(default=True, description="Whether the Redis port speaks TLS, with the certificate in NAME-tls.")


class Writer(Pods):
    """The one process that writes."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            # Asked of the default too, in which nothing is filled in yet.
            rule(
                "!has(self.mode) || self.mode != 'Image' || has(self.image)",
                "the mode Image runs an image of yours; say which in writer.image",
            ),
            # In the mode External it may stay, so that a writer can be sent away and called back by one word.
            rule(
                "!has(self.image) || (has(self.mode) && self.mode != 'Server')",
                "writer.image is not for the mode Server; set writer.mode to Image, or use spec.image to run another "
                "version of ours",
            ),
        )
    )

    mode: Literal["Server", "Image", "External"] = Field(
        default="Server",
        description="Server: a pod of ours that speaks the Redis protocol. Image: your own image that embeds SlateDB; it is "
        "told where in SLATE_STORE, SLATE_PATH and SLATE_SETTINGS. External: the writer runs elsewhere.",
    )
    image: str | None = Field(default=None, max_length=512, description="Your image, in the mode Image.")
    settings: Free = Field(default_factory=dict, description="SlateDB settings, with the keys of its JSON.")
    service: ServiceShape = Field(default_factory=ServiceShape, description="How clients reach it.")
    auth: Auth = Field(default_factory=Auth, description="Who may speak to it and to the readers.")


class Readers(Pods):
    """Processes that follow the writer and answer reads."""

    replicas: int = Field(default=0, ge=0, le=1000, description="How many. `kubectl scale` and autoscalers set this.")
    poll_interval: Duration = Field(default="1s", description="How often each looks for what is new; so late they are.")


class SparkCompaction(Spark):
    """Large compactions as Spark jobs. The compactor decides and commits; Spark's executors merge."""

    larger_than: Size = Field(
        default="10Gi", description="Compactions that read more than this are left to Spark.", examples=["50Gi"]
    )
    leave_for: Duration = Field(
        default="15m", description="One that Spark has not begun by then is done by the compactor itself."
    )


class Compactor(Pods):
    """The process that merges what was written."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            # Asked of the default too, in which nothing is filled in yet.
            rule(
                "!has(self.spark) || !has(self.enabled) || self.enabled",
                "compactor.spark works for the compactor that is enabled here; enable it, or leave spark out",
            )
        )
    )

    enabled: bool = Field(
        default=True, description="False if the writer compacts by itself, or another process outside of this cluster."
    )
    settings: Free = Field(default_factory=dict, description="compactor_options of SlateDB, with the keys of its JSON.")
    spark: SparkCompaction | None = Field(
        default=None, description="Large compactions as Spark jobs. By default none is."
    )


class Gc(Pods):
    """The process that collects garbage and answers the operator. It always runs."""

    interval: Duration = Field(default="5m", description="How often garbage is collected.")
    min_age: Duration = Field(default="5m", description="What is younger is never taken for garbage.")


class Monitoring(Model):
    """What Prometheus needs."""

    pod_monitor: bool = Field(default=False, description="Make a PodMonitor. Its CRD has to be installed.")
    labels: dict[str, str] = Field(default_factory=dict, description="Labels of the PodMonitor.")


class NetworkPolicies(Model):
    """Who may reach the pods. The operator always may."""

    enabled: bool = Field(default=True, description="Make NetworkPolicies for the pods.")
    allow_from: list[Free] = Field(
        default_factory=list,
        description="NetworkPolicyPeers that may speak the Redis protocol; with none, every pod of the namespace may, and "
        "with a Service of the type NodePort or LoadBalancer everybody who can reach it.",
    )


class DatabaseSpec(Model):
    """What is wanted."""

    store: Store = Field(description="Where the database is, and how its pods get there.")
    image: str | None = Field(
        default=None,
        max_length=512,
        description="The image of the pods. By default the one that the operator brought when the database was first seen: "
        "an operator that is upgraded restarts nothing.",
    )
    bootstrap: Bootstrap = Field(default_factory=Bootstrap, description="How the database comes to be.")
    writer: Writer = Field(default_factory=Writer, description="The one process that writes.")
    readers: Readers = Field(default_factory=Readers, description="Processes that answer reads.")
    compactor: Compactor = Field(default_factory=Compactor, description="The process that merges what was written.")
    gc: Gc = Field(default_factory=Gc, description="The process that collects garbage.")
    deletion_policy: Literal["Retain", "SoftDestroy", "Destroy"] = Field(
        default="Retain",
        description="What happens to the bytes when this object is deleted. Retain: they stay. SoftDestroy: they go after "
        "deleteGrace, and can be brought back until then. Destroy: they go at once, unless a checkpoint is alive.",
    )
    delete_grace: Duration = Field(
        default="7d", description="How long a softly destroyed database can be brought back."
    )
    deletion_protection: bool = Field(
        default=False,
        description="While true, a deletion of this object waits and nothing is stopped, and a database that is marked as "
        "destroyed is brought back.",
    )
    paused: bool = Field(default=False, description="While true, the operator changes nothing and says so.")
    hibernated: bool = Field(default=False, description="While true, nothing but the garbage collector runs.")
    monitoring: Monitoring = Field(default_factory=Monitoring, description="What Prometheus needs.")
    network_policies: NetworkPolicies = Field(default_factory=NetworkPolicies, description="Who may reach the pods.")


class Blocker(Observed):
    """Something that holds a deletion."""

    kind: str = Field(description="Checkpoint, Clone, Grace, Protection, Storage, Image, Pods …")
    name: str = Field(description="Which one.")
    message: str = Field(default="", description="Why, and until when or what to do.")


class Deletion(Observed):
    """How far a deletion is."""

    requested_at: Time = Field(description="When it was asked for.")
    deadline: Time | None = Field(default=None, description="When the grace is over.")
    blocked_by: tuple[Blocker, ...] = Field(default=(), description="What it waits for.")


class Endpoints(Observed):
    """Where the database is reached, inside of the cluster."""

    writer: str | None = Field(default=None, description="host:port of the Redis protocol, for reading and writing.")
    readers: str | None = Field(default=None, description="host:port of the Redis protocol, for reading.")
    admin: str | None = Field(default=None, description="url of the admin API.")


class Contention(Observed):
    """Another writer that takes the database away again and again."""

    epochs: tuple[int, ...] = Field(default=(), description="Writer epochs that were seen.")
    seen_at: tuple[Time, ...] = Field(default=(), description="When each was first seen.")
    starts: tuple[Time, ...] = Field(default=(), description="When our own writer was started, which explains some.")
    backing_off_until: Time | None = Field(default=None, description="Our writer rests until then.")
    attempts: int = Field(default=0, description="How often it has rested.")


class SparkCompactionStatus(Observed):
    """The Spark job that compacts, and how the last one went."""

    run: int = Field(default=0, description="How many there were; the last one's name ends with it.")
    launcher: str | None = Field(default=None, description="Who starts Spark: SparkOperator or Submit.")
    application: str | None = Field(default=None, description="The SparkApplication or Job that runs now.")
    started_at: Time | None = Field(default=None, description="When the last one began.")
    finished_at: Time | None = Field(default=None, description="When it ended.")
    failures: int = Field(default=0, description="How many failed in a row.")
    message: str = Field(default="", description="What the last one said.")


class DatabaseStatus(Observed):
    """What is."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that this is about.")
    conditions: Conditions = Field(default=(), description="What is true of the database.")
    phase: str | None = Field(default=None, description="The conditions in one word.")
    image: str | None = Field(
        default=None,
        description="The image that the operator brought when the database was first seen. spec.image wins over it.",
    )
    manifest_id: int | None = Field(default=None, description="The newest manifest.")
    writer_epoch: int | None = Field(default=None, description="How often a writer has taken over.")
    compactor_epoch: int | None = Field(default=None, description="How often a compactor has taken over.")
    l0: int | None = Field(default=None, description="SSTs that wait for compaction.")
    sorted_runs: int | None = Field(default=None, description="Runs that compaction has made.")
    size_bytes: int | None = Field(default=None, description="Bytes of the present state.")
    size: str | None = Field(default=None, description="The same for people.")
    checkpoints: int | None = Field(default=None, description="How many there are, those of readers included.")
    estimated_monthly_cost: str | None = Field(default=None, description="What the bytes cost at S3's list price.")
    endpoints: Endpoints | None = Field(default=None, description="Where it is reached.")
    reader_replicas: int | None = Field(default=None, description="How many readers there are.")
    selector: str | None = Field(default=None, description="Labels of the readers, for autoscalers.")
    rotated: str | None = Field(default=None, description="The value of the annotation that was followed last.")
    contention: Contention | None = Field(default=None, description="Another writer at the same place.")
    spark_compaction: SparkCompactionStatus | None = Field(default=None, description="Large compactions on Spark.")
    destroyed_at: Time | None = Field(default=None, description="Since when it is marked as destroyed, if it is.")
    deletion: Deletion | None = Field(default=None, description="How far the deletion is.")


_BEGUN = (
    "has(oldSelf.status.conditions) && oldSelf.status.conditions.exists(c, c.type == 'Owned' && c.status == 'True')"
)
_SAME_BEGINNING = (
    "has(oldSelf.spec.bootstrap) && (self.spec.bootstrap == oldSelf.spec.bootstrap "
    "|| has(oldSelf.spec.bootstrap.adopt) || has(oldSelf.spec.bootstrap.recover))"
)
"""What was adopted or brought back had begun before, and may be described again as it was then."""


class SlateDatabase(Resource):
    """A SlateDB database in object storage, with the pods that write, read, compact and clean it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            name_of_services("SlateDatabase"),
            rule(
                f"!has(self.spec.bootstrap) || ({_SAME_BEGINNING}) || !({_BEGUN})",
                "the database has begun, and how it did cannot be changed any more; take bootstrap out, or delete this "
                "object (with the deletionPolicy Retain the bytes stay) and make it anew",
            ),
        )
    )
    definition: ClassVar[Definition] = Definition(
        kind="SlateDatabase",
        plural="slatedatabases",
        short="sdb",
        columns=(
            READY,
            Column("Phase", ".status.phase", description="The conditions in one word."),
            Column("Epoch", ".status.writerEpoch", "integer", "How often a writer has taken over."),
            Column("Manifest", ".status.manifestId", "integer", "The newest manifest."),
            Column("Size", ".status.size", description="Bytes of the present state."),
            Column("Checkpoints", ".status.checkpoints", "integer", "How many checkpoints there are."),
            Column("Policy", ".spec.deletionPolicy", description="What happens to the bytes at deletion."),
            Column("Url", ".spec.store.url", description="Where the database is.", wide=True),
            Column("Readers", ".status.readerReplicas", "integer", "How many readers there are.", wide=True),
            Column("Monthly", ".status.estimatedMonthlyCost", description="What the bytes cost.", wide=True),
            REASON,
        ),
        selectable=(".spec.deletionPolicy", ".spec.store.url"),
        scale=Scale(wanted=".spec.readers.replicas", present=".status.readerReplicas", selector=".status.selector"),
    )

    spec: DatabaseSpec
    status: DatabaseStatus = Field(default_factory=DatabaseStatus)
