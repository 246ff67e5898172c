"""What can be asked of the admin API, as documents that are checked before anything is done."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

LONGEST_LIFETIME = 100 * 365 * 86400

Lifetime = Annotated[
    float | None,
    Field(
        gt=0,
        le=LONGEST_LIFETIME,
        allow_inf_nan=False,
        description="seconds from now; null for ever",
        examples=[604800],
        title="lifetime_seconds",
    ),
]

Place = Annotated[str, StringConstraints(min_length=1, max_length=1024), Field(description="a path in the same store")]


class Document(BaseModel):
    """What it does not know is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckpointRequest(Document):
    """A checkpoint of the present state, or of what another one keeps."""

    lifetime_seconds: Lifetime = None
    name: str | None = Field(default=None, max_length=1024)
    source: UUID | None = Field(
        default=None, description="a checkpoint whose state is kept, instead of the present one"
    )


class RefreshRequest(Document):
    """How long the checkpoint lives from now on. It has to be said: a document that says nothing would mean for ever."""

    lifetime_seconds: Lifetime


class OwnerRequest(Document):
    """Who cares for this database, and what he thinks is there when he first comes."""

    uid: UUID
    namespace: str = Field(min_length=1, max_length=253)
    name: str = Field(min_length=1, max_length=253)
    expect: Literal["empty", "database", "destroyed"] = "database"
    instead_of: UUID | None = Field(default=None, description="the owner, gone for good, who did not give it back")


class CloneSourceRequest(Document):
    path: Place
    checkpoint: UUID | None = None


class CloneOperation(Document):
    """Make a clone at ``target`` of this database, or of others in the same store."""

    kind: Literal["clone"]
    target: Place
    checkpoint: UUID | None = Field(default=None, description="of this database; none for the present state")
    sources: list[CloneSourceRequest] = Field(default_factory=list, description="several, with disjoint keys, instead")


class CopyOperation(Document):
    """Make a copy at ``target`` that shares nothing with this database."""

    kind: Literal["copy"]
    target: Place
    checkpoint: UUID | None = None


class DestroyOperation(Document):
    """Destroy this database: softly, so that it can be brought back for a while, or for good. A database that may hold rows
    is destroyed softly first, and then for good with ``destroyed_at_s``: so a request that is repeated deletes no other."""

    kind: Literal["destroy"]
    mode: Literal["soft", "hard"] = "soft"
    destroyed_at_s: int | None = Field(
        default=None,
        description="for good only if it is still destroyed since this second, and was not brought back; /v1/status tells "
        "the second. Without it only a clone that is under construction is deleted for good, or what is being deleted "
        "already; anything else is refused as destruction-not-named",
    )


class UndeleteOperation(Document):
    """Bring this database back."""

    kind: Literal["undelete"]


class RestoreOperation(Document):
    """Let this database be again what a checkpoint keeps; what it is now is kept as a checkpoint of its own."""

    kind: Literal["restore"]
    checkpoint: UUID
    keep_seconds: Lifetime = None


class CollectOperation(Document):
    """Collect garbage now."""

    kind: Literal["collect"]
    dry_run: bool = False


Work = Annotated[
    CloneOperation | CopyOperation | DestroyOperation | UndeleteOperation | RestoreOperation | CollectOperation,
    Field(discriminator="kind"),
]


class OperationRequest(Document):
    """Work that may take long. It goes on when the service is started anew, and repeating the request is harmless."""

    work: Work
