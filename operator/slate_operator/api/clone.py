"""Clone: a new database that begins with the state of another, and shares its bytes."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict, Field

from slate_operator.api.bootstrap import CloneBootstrap
from slate_operator.api.conditions import Conditions
from slate_operator.api.definition import READY, REASON, Column, Definition
from slate_operator.api.model import Free, Model, Name, Observed
from slate_operator.api.place import PATH, URL, name_of_services
from slate_operator.api.resource import Resource
from slate_operator.api.rule import at_most_one_of, rule, rules
from slate_operator.api.schedule import TemplateMetadata


class CloneTarget(Model):
    """Where the new database is. At most one of the fields is given; by default it is beside its source, named like it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(at_most_one_of("url", "path"), "a clone is at one place: give either target.url or target.path")
        )
    )

    url: str | None = Field(
        default=None,
        max_length=1024,
        description="The whole url, in the same bucket as the source.",
        json_schema_extra=rules(URL),
    )
    path: str | None = Field(
        default=None,
        max_length=1024,
        description="The path in the source's bucket.",
        examples=["staging/orders"],
        json_schema_extra=rules(PATH),
    )


class DatabaseTemplate(Model):
    """The SlateDatabase that is made."""

    metadata: TemplateMetadata = Field(default_factory=TemplateMetadata, description="Its labels and annotations.")
    spec: Free = Field(
        default_factory=dict,
        description="Its spec, laid over the source's. store.url and bootstrap are filled in; readers, the writer's Service "
        "and the deletion policy are not taken over.",
    )


class CloneSpec(Model):
    """What is wanted."""

    source: CloneBootstrap = Field(description="The state that the new database begins with.")
    target: CloneTarget = Field(default_factory=CloneTarget, description="Where the new database is.")
    database_name: Name | None = Field(default=None, description="The SlateDatabase's name; by default this object's.")
    template: DatabaseTemplate = Field(default_factory=DatabaseTemplate, description="The SlateDatabase that is made.")


class CloneStatus(Observed):
    """What is."""

    observed_generation: int = Field(default=-1, description="The generation of the spec that this is about.")
    conditions: Conditions = Field(default=(), description="What is true of the clone.")
    phase: str | None = Field(default=None, description="The conditions in one word.")
    database_ref: str | None = Field(default=None, description="The SlateDatabase that was made.")
    source_database: str | None = Field(default=None, description="The SlateDatabase that it comes from.")
    url: str | None = Field(default=None, description="Where the new database is.")
    parent_checkpoint_id: str | None = Field(default=None, description="What it holds in its parent.")
    attached: bool | None = Field(default=None, description="Whether it still needs bytes of its parent.")
    shared_bytes: int | None = Field(default=None, description="How many bytes it still shares with it.")


class Clone(Resource):
    """A new database that begins with the state of another and shares its bytes until it has rewritten them."""

    model_config = ConfigDict(json_schema_extra=rules(name_of_services("Clone")))
    definition: ClassVar[Definition] = Definition(
        kind="Clone",
        plural="clones",
        short="scl",
        columns=(
            READY,
            Column("Source", ".status.sourceDatabase", description="The SlateDatabase that it comes from."),
            Column("Database", ".status.databaseRef", description="The SlateDatabase that was made."),
            Column("Attached", ".status.attached", description="Whether it still needs bytes of its source."),
            Column("Shared", ".status.sharedBytes", "integer", "Bytes that it shares with its source.", wide=True),
            Column("Url", ".status.url", description="Where the new database is.", wide=True),
            REASON,
        ),
    )

    spec: CloneSpec = Field(
        description="What is wanted.",
        json_schema_extra=rules(
            rule(
                "self == oldSelf",
                "a Clone is carried out once and cannot be changed; edit the SlateDatabase that it made, or make another "
                "Clone",
            )
        ),
    )
    status: CloneStatus = Field(default_factory=CloneStatus)
