"""How a database comes to be."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from slate_operator.api.model import Empty, Model, Reference
from slate_operator.api.rule import at_most_one_of, one_of, rule, rules


class CloneBootstrap(Model):
    """The state that the database begins with. Exactly one of the fields is given."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(one_of("databaseRef", "checkpointRef"), "give either databaseRef or checkpointRef, and not both")
        )
    )

    database_ref: Reference | None = Field(default=None, description="The present state of this SlateDatabase.")
    checkpoint_ref: Reference | None = Field(default=None, description="The state that this Checkpoint keeps.")


class Bootstrap(Model):
    """How the database comes to be. At most one of the fields is given; with none of them the place has to be empty."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                at_most_one_of("empty", "adopt", "clone", "recover"),
                "a database begins in one way: give one of empty, adopt, clone and recover",
            )
        )
    )

    empty: Empty | None = Field(default=None, description="A new database, at a place where none is.")
    adopt: Empty | None = Field(
        default=None, description="The database that is there already, such as one that a SlateDB writer made."
    )
    clone: CloneBootstrap | None = Field(default=None, description="A clone of another database.")
    recover: Empty | None = Field(
        default=None, description="The softly destroyed database that is there, brought back."
    )
