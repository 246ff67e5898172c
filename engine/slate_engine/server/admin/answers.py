"""What the admin API answers, for its documentation. :mod:`slate_engine.server.admin.documents` makes the documents."""

from __future__ import annotations

from typing import Any, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field


class Answer(BaseModel):
    """Nothing is answered that is not documented."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class CheckpointAnswer(Answer):
    id: UUID
    name: str | None
    manifest_id: int
    create_time_s: int
    expire_time_s: int | None = Field(description="null if it lives for ever")


class CheckpointsAnswer(Answer):
    checkpoints: list[CheckpointAnswer]


class ParentAnswer(Answer):
    path: str
    ssts: int
    size_bytes: int
    final_checkpoint_id: UUID | None


class StatusAnswer(Answer):
    path: str
    state: str = Field(description="live, or what of its end it is in")
    destroyed_at_s: int | None
    manifest_id: int
    writer_epoch: int
    compactor_epoch: int
    last_l0_seq: int
    l0_ssts: int
    sorted_runs: int
    size_bytes: int = Field(description="of what its newest state is made of, parents' objects included")
    dollars_a_month: float = Field(
        description="to store size_bytes at these prices. Not in it: requests, of which every service says in its /status "
        "what its own come to; traffic; the log; and what only checkpoints hold, which /v1/explain tells"
    )
    prices: str
    log_trouble: str | None = Field(
        description="why nothing can read or open it: a WAL file that the newest manifest needs is missing"
    )
    checkpoints: list[CheckpointAnswer]
    parents: list[ParentAnswer]


class OwnerMark(Answer):
    uid: str
    namespace: str
    name: str
    released: bool


class OwnerAnswer(Answer):
    owner: OwnerMark | None


class OperationAnswer(Answer):
    id: UUID
    work: dict[str, Any]
    state: Literal["running", "succeeded", "failed"]
    created_ms: int
    updated_ms: int
    progress: dict[str, int] | None
    result: dict[str, Any] | None
    problem: dict[str, Any] | None = Field(description="why it failed, as a problem document")


class OperationsAnswer(Answer):
    operations: list[OperationAnswer]


class CompactionAnswer(Answer):
    id: str
    state: str
    input_bytes: int
    submitted_at_s: int
    worker: str | None
    heartbeat_at_s: int | None
    description: str


class CompactionsAnswer(Answer):
    compactions: list[CompactionAnswer]
    waiting_bytes: int = Field(description="what no worker has claimed yet")


class HoldingAnswer(Answer):
    holder: str
    objects: int
    size_bytes: int
    alone_bytes: int
    dollars_a_month: float = Field(description="to store what it alone holds; requests and traffic are not in it")


class ObjectAnswer(Answer):
    name: str
    kind: str
    size_bytes: int
    age_s: int | float
    verdict: str
    holders: list[str]
    more_holders: int
    why: str


class ExplanationAnswer(Answer):
    path: str
    size_bytes: int
    holdings: list[HoldingAnswer]
    objects: list[ObjectAnswer]
    more_objects: int
