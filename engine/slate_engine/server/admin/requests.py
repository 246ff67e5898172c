"""What can be asked of the admin API, as documents that are checked before anything is done."""

from __future__ import annotations

from typing import Annotated, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field

Lifetime = Annotated[
    float | None,
    Field(gt=0, description="seconds from now; null for ever", examples=[604800], title="lifetime_seconds"),
]


class Document(BaseModel):
    """What it does not know is a mistake, and is told."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckpointRequest(Document):
    """A checkpoint of the present state, or of what another one keeps."""

    lifetime_seconds: Lifetime = None
    name: str | None = None
    source: UUID | None = Field(
        default=None, description="a checkpoint whose state is kept, instead of the present one"
    )


class RefreshRequest(Document):
    """How long the checkpoint lives from now on."""

    lifetime_seconds: Lifetime = None


class CloneSourceRequest(Document):
    path: str
    checkpoint: UUID | None = None


class CloneOperation(Document):
    """Make a clone at ``target`` of this database, or of others in the same store."""

    kind: Literal["clone"]
    target: str
    checkpoint: UUID | None = Field(default=None, description="of this database; none for the present state")
    sources: list[CloneSourceRequest] = Field(default_factory=list, description="several, with disjoint keys, instead")


class CopyOperation(Document):
    """Make a copy at ``target`` that shares nothing with this database."""

    kind: Literal["copy"]
    target: str
    checkpoint: UUID | None = None


class DestroyOperation(Document):
    """Destroy this database: softly, so that it can be brought back for a while, or for good."""

    kind: Literal["destroy"]
    mode: Literal["soft", "hard"] = "soft"


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
