"""Checkpoint: a state of a database that is kept."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import ConfigDict, Field

from slate_operator.api.conditions import Conditions
from slate_operator.api.definition import READY, REASON, Column, Definition
from slate_operator.api.model import Duration, Empty, Model, Observed, Reference, Time
from slate_operator.api.place import name_of_label
from slate_operator.api.resource import Resource
from slate_operator.api.rule import fixed, one_of, rule, rules


class AllScope(Model):
    """Everything that the writer has, also what is not in object storage yet."""

    force_flush: bool = Field(default=True, description="Write what is only in the log to SSTs first.")


class Scope(Model):
    """What the checkpoint covers. Exactly one of the fields is given."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(one_of("all", "durable"), "a checkpoint has one scope: give either all: {} or durable: {}")
        )
    )

    all: AllScope | None = Field(default=None, description="Everything that the writer has acknowledged in any way.")
    durable: Empty | None = Field(default=None, description="What is in object storage. The writer need not run.")


class CheckpointSource(Model):
    """A state other than the present one. Exactly one of the fields is given."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                one_of("checkpointRef", "id"),
                "a checkpoint has one source: give either checkpointRef (another Checkpoint) or id (a checkpoint of the "
                "database that has no object)",
            )
        )
    )

    checkpoint_ref: Reference | None = Field(default=None, description="The state that another Checkpoint keeps.")
    id: str | None = Field(
        default=None,
        pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        description="The id of a checkpoint that exists already. This object becomes its view, instead of a new checkpoint.",
    )


class CheckpointSpec(Model):
    """What is wanted."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!has(self.source) || !has(self.scope) || !has(self.scope.all)",
                "the scope all asks the writer for its present state, but source names a state that is durable already; "
                "leave one of them out",
            )
        )
    )

    database_ref: Reference = Field(description="The SlateDatabase.")
    source: CheckpointSource | None = Field(default=None, description="A state other than the present one.")
    scope: Scope | None = Field(default=None, description="What it covers. By default what is durable.")
    lifetime: Duration | None = Field(
        default=None,
        description="How long it lives, from the moment it is made or from the moment this field is changed. For ever, if "
        "not given.",
        examples=["7d", "90m", "1h30m"],
        json_schema_extra=rules(
            rule("self.matches('[1-9]')", "a lifetime is longer than nothing; delete the Checkpoint to end it now")
        ),
    )
    deletion_policy: Literal["Delete", "Retain"] = Field(
        default="Delete", description="Whether the checkpoint goes when this object is deleted."
    )


class CheckpointStatus(Observed):
    """What is."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that this is about.")
    conditions: Conditions = Field(default=(), description="What is true of the checkpoint.")
    phase: str | None = Field(default=None, description="The conditions in one word.")
    id: str | None = Field(
        default=None, description="Its id in the database: this object's uid, unless it was adopted."
    )
    manifest_id: int | None = Field(default=None, description="The manifest that it keeps.")
    created_at: Time | None = Field(default=None, description="When it was made.")
    expires_at: Time | None = Field(default=None, description="When it ends by itself.")
    pinned_bytes: int | None = Field(default=None, description="Bytes that would be garbage without it.")
    lifetime: str | None = Field(default=None, description="The lifetime that was given to it last.")
    used_by: tuple[str, ...] = Field(default=(), description="What needs it at the moment, as kind/name.")


class Checkpoint(Resource):
    """A state of a database that is kept, for reading, cloning and restoring."""

    model_config = ConfigDict(json_schema_extra=rules(name_of_label("Checkpoint", 63)))
    definition: ClassVar[Definition] = Definition(
        kind="Checkpoint",
        plural="checkpoints",
        short="scp",
        columns=(
            READY,
            Column("Database", ".spec.databaseRef.name", description="The SlateDatabase."),
            Column("Id", ".status.id", description="The checkpoint's id in the database."),
            Column("Manifest", ".status.manifestId", "integer", "The manifest that it keeps."),
            Column("Expires", ".status.expiresAt", description="When it ends by itself."),
            Column("Policy", ".spec.deletionPolicy", description="Whether it goes with this object.", wide=True),
            Column("Pinned", ".status.pinnedBytes", "integer", "Bytes that only it keeps.", wide=True),
            REASON,
        ),
        selectable=(".spec.databaseRef.name",),
    )

    # The rules are here and not in the spec's own model, for a template of it can be changed.
    spec: CheckpointSpec = Field(
        description="What is wanted.",
        json_schema_extra=rules(
            rule(
                f"self.databaseRef == oldSelf.databaseRef && {fixed('source')} && {fixed('scope')}",
                "a checkpoint keeps what it was made from: databaseRef, source and scope cannot be changed; make another "
                "Checkpoint",
            )
        ),
    )
    status: CheckpointStatus = Field(default_factory=CheckpointStatus)
