"""BulkRead: a state of a database, read by Spark."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import ConfigDict, Field

from slate_operator.api.conditions import Conditions
from slate_operator.api.definition import REASON, Column, Definition
from slate_operator.api.model import Duration, Model, Observed, Reference, Time
from slate_operator.api.place import name_of_label
from slate_operator.api.resource import Resource
from slate_operator.api.rule import fixed, one_of, rule, rules
from slate_operator.api.spark import Spark
from slate_operator.api.store import no_secrets

LONGEST_NAME = 40
"""Spark adds much to it for the names of pods and services."""


OWN_SCHEMES = ("s3", "gs", "gcs", "az", "azure", "abfss", "https", "file")
"""Of the places where the engine writes Parquet itself, under names that a second attempt uses again."""
_OWN_PLACE = rf"^(?i:{'|'.join(OWN_SCHEMES)})://"


class Keys(Model):
    """Which keys are read. What is given has to hold all at once."""

    start: str | None = Field(default=None, max_length=1024, description="Only keys from this one on.")
    end: str | None = Field(default=None, max_length=1024, description="Only keys before this one.")
    prefix: str | None = Field(
        default=None, min_length=1, max_length=1024, description="Only keys that begin with this.", examples=["order:"]
    )


class Decoder(Model):
    """How bytes become values."""

    format: str = Field(
        default="binary",
        max_length=256,
        description="binary, utf8, int32, int64, uint32, uint64, json, struct, arrow, or module:name of a function in the "
        "image.",
        examples=["utf8", "json"],
        json_schema_extra=rules(
            rule(
                r"self.matches(r'^(binary|utf8|u?int(32|64)|json|struct|arrow|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$')",
                "a format is one of binary, utf8, int32, int64, uint32, uint64, json, struct and arrow, or names a "
                "function of the image as module:name",
            )
        ),
    )
    ddl: str | None = Field(
        default=None,
        max_length=65536,
        description="The type, for formats that need one, as Spark's DDL has it.",
        examples=["total INT, tags ARRAY<STRING>"],
    )


class Decode(Model):
    """How keys and values are decoded. By default they stay bytes."""

    key: Decoder = Field(default_factory=Decoder, description="The column `key`.")
    value: Decoder = Field(default_factory=Decoder, description="The column `value`.")
    malformed: Literal["Fail", "Null"] = Field(
        default="Fail", description="What to do with bytes that do not decode: end the read, or make them null."
    )


class Sink(Model):
    """The table that is written."""

    url: str = Field(
        min_length=3,
        max_length=1024,
        description="Where: s3://bucket/folder, gs://bucket/folder or az://container/folder for Parquet, with nothing more "
        "in the image; any path or table that Spark can write to, where the image has what that needs.",
        examples=["s3://lake/orders"],
        json_schema_extra=rules(
            rule(
                r"!self.matches(r'^[^/?#]*://[^/?#]*:[^/?#]*@') && !self.matches(r'\s')",
                "the url of a sink holds no password and no spaces; put credentials into a Secret and name it in "
                "sink.secretRef",
            )
        ),
    )
    format: Literal["parquet", "delta", "iceberg"] = Field(default="parquet", description="The kind of table.")
    mode: Literal["ErrorIfExists", "Overwrite", "Append"] = Field(
        default="ErrorIfExists", description="What to do if there is a table already."
    )
    options: dict[str, str] = Field(
        default_factory=dict, max_length=32, description="Options of the table, such as compression: zstd."
    )
    store_options: dict[str, str] | None = Field(
        default=None,
        max_length=32,
        description="Options of the sink's store that are no secrets, such as endpoint and region. By default those of the "
        "database's store.",
        json_schema_extra=rules(no_secrets("put keys into a Secret and name it in sink.secretRef")),
    )
    secret_ref: Reference | None = Field(
        default=None,
        description="A Secret with credentials for the sink, such as AWS_ACCESS_KEY_ID. By default those of the database's "
        "store are used.",
    )

    @property
    def may_double(self) -> bool:
        """Whether a second attempt would add rows that the first one has added already: an Append by Spark's own connectors,
        which know nothing of attempts. Delta tables do: each BulkRead is one transaction of theirs."""
        if self.mode != "Append" or self.format == "delta":
            return False
        return self.format != "parquet" or re.match(_OWN_PLACE, self.url) is None


class Application(Model):
    """Your own program. Its environment tells it what to read: `spark.read.format("slatedb").load()` needs no options."""

    main_file: str = Field(
        min_length=1,
        max_length=1024,
        description="The Python file to run: local:///path in the image, or a url that Spark can read.",
        examples=["local:///opt/app/report.py"],
    )
    arguments: list[Annotated[str, Field(max_length=4096)]] = Field(
        default_factory=list, max_length=256, description="Its arguments. They are no place for secrets."
    )


_FIXED = ("databaseRef", "checkpointRef", "keys", "columns", "decode", "where", "sink", "application", "spark")


class BulkReadSpec(Model):
    """What is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                one_of("databaseRef", "checkpointRef"),
                "a bulk read is of one state: give either databaseRef (as it is now) or checkpointRef",
            ),
            rule(
                one_of("sink", "application"),
                "give either sink (a table to write) or application (a program of your own)",
            ),
            rule(
                "!has(self.application) || !(has(self.keys) || has(self.columns) || has(self.decode) || has(self.where))",
                "an application of your own chooses its keys, columns and decoders itself; leave them out",
            ),
            rule(
                "!has(self.retries) || self.retries == 0 || !has(self.sink) || self.sink.mode != 'Append' || "
                "self.sink.format == 'delta' || "
                f"(self.sink.format == 'parquet' && self.sink.url.matches(r'{_OWN_PLACE}'))",
                "an Append to this sink is not tried again, because a second attempt could write the rows twice: leave "
                "retries out, or use Overwrite, the format delta, or Parquet in a store of ours (s3://, gs://, az://)",
            ),
        )
    )

    database_ref: Reference | None = Field(default=None, description="The present state of this SlateDatabase.")
    checkpoint_ref: Reference | None = Field(default=None, description="The state that this Checkpoint keeps.")
    keys: Keys | None = Field(default=None, description="Which keys are read. By default all.")
    columns: list[Literal["key", "value", "seq", "create_ts", "expire_ts"]] | None = Field(
        default=None, min_length=1, max_length=5, description="Which columns are written. By default all."
    )
    decode: Decode | None = Field(default=None, description="How keys and values are decoded.")
    where: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Only rows for which this expression of Spark's SQL holds.",
    )
    sink: Sink | None = Field(default=None, description="The table that is written.")
    application: Application | None = Field(default=None, description="Your own program, instead of a sink.")
    spark: Spark = Field(default_factory=Spark, description="How the Spark job is run.")
    retries: int | None = Field(
        default=None,
        ge=0,
        le=20,
        description="How often it is tried again after a failure. By default once; but never where a second attempt could "
        "write the rows twice: an Append to Iceberg, or to Parquet at a place that Spark's own connectors write.",
    )
    deadline: Duration | None = Field(
        default=None, description="It is ended after so long, with all its attempts. By default it may take for ever."
    )
    ttl: Duration | None = Field(
        default=None, description="This object is deleted so long after its end, with its pods. By default it stays."
    )

    @property
    def may_double(self) -> bool:
        return self.sink is not None and self.sink.may_double

    @property
    def more_attempts(self) -> int:
        """How many attempts there are after the first. Objects made before the CRD had its rule about that may ask for
        too many."""
        if self.may_double:
            return 0
        return 1 if self.retries is None else self.retries


class BulkReadStatus(Observed):
    """What is."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that this is about.")
    conditions: Conditions = Field(default=(), description="What is true of the bulk read.")
    state: str | None = Field(default=None, description="Pending, Submitted, Running, Succeeded or Failed.")
    database: str | None = Field(default=None, description="The SlateDatabase that is read.")
    checkpoint_id: str | None = Field(default=None, description="The checkpoint that holds the state while it is read.")
    manifest_id: int | None = Field(default=None, description="The manifest that is read.")
    held_until: Time | None = Field(
        default=None, description="The state is kept until then, if nobody prolongs that; not there when it was let go."
    )
    launcher: str | None = Field(default=None, description="Who starts Spark: SparkOperator or Submit.")
    application: str | None = Field(default=None, description="The SparkApplication or Job of the last attempt.")
    driver_pod: str | None = Field(default=None, description="The pod of its driver.")
    attempt: int = Field(default=0, description="Which attempt it is, counted from 1.")
    not_before: Time | None = Field(default=None, description="When the next attempt begins.")
    started_at: Time | None = Field(default=None, description="When the first attempt began.")
    finished_at: Time | None = Field(default=None, description="When it ended.")
    rows: int | None = Field(default=None, description="Rows that were read.")
    bytes: int | None = Field(default=None, description="Bytes of their keys and values.")


class BulkRead(Resource):
    """A state of a database, read by a Spark job: written to a table, or handed to a program of yours."""

    model_config = ConfigDict(json_schema_extra=rules(name_of_label("BulkRead", LONGEST_NAME)))
    definition: ClassVar[Definition] = Definition(
        kind="BulkRead",
        plural="bulkreads",
        short="sbr",
        columns=(
            Column("State", ".status.state", description="How far it is."),
            Column("Database", ".status.database", description="The SlateDatabase."),
            Column("Rows", ".status.rows", "integer", "Rows that were read."),
            Column("Application", ".status.application", description="The SparkApplication or Job."),
            Column("Sink", ".spec.sink.url", description="Where the table is.", wide=True),
            Column("Bytes", ".status.bytes", "integer", "Bytes of keys and values.", wide=True),
            Column("Attempt", ".status.attempt", "integer", "Which attempt it is.", wide=True),
            REASON,
        ),
        selectable=(".spec.databaseRef.name",),
    )

    spec: BulkReadSpec = Field(
        description="What is wanted.",
        json_schema_extra=rules(
            rule(
                " && ".join(f"({fixed(field)})" for field in _FIXED),
                "a bulk read is carried out once: only retries, deadline and ttl can be changed; make another BulkRead",
            )
        ),
    )
    status: BulkReadStatus = Field(default_factory=BulkReadStatus)
