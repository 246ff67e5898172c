"""What a reconcile of a database knows: of the cluster, and of the database, as far as it has asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from slate_operator.admin.database import DatabaseFacts, OperationFacts, Owner
from slate_operator.api.checkpoint import Checkpoint
from slate_operator.api.database import SlateDatabase
from slate_operator.kube.cluster import Body
from slate_operator.names import FINALIZER_DATABASE

UNFINISHED = "under construction"
"""The state of a clone that somebody has begun to make."""

# --- what can be asked of a database ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """How it is; None if there is none."""


@dataclass(frozen=True, slots=True)
class Whose:
    """Who has claimed its path."""


@dataclass(frozen=True, slots=True)
class Claim:
    """Let the path be ours."""

    expect: str
    instead_of: str | None = None


@dataclass(frozen=True, slots=True)
class Release:
    """Give the path back."""


@dataclass(frozen=True, slots=True)
class Destroying:
    """Whether it is still at a destruction that was asked for before."""


@dataclass(frozen=True, slots=True)
class Work:
    """Have something done, under an id that makes a repetition harmless. ``of_source``: by the database that is cloned."""

    id: str
    kind: str
    arguments: tuple[tuple[str, str | int], ...] = ()
    of_source: bool = False

    @property
    def document(self) -> dict[str, Any]:
        return {"kind": self.kind, **dict(self.arguments)}


Ask = Look | Whose | Claim | Release | Destroying | Work


@dataclass(frozen=True, slots=True)
class Answer:
    """What a database answered; or the kind of the problem that it has with the question; or that it did not answer."""

    value: DatabaseFacts | Owner | OperationFacts | bool | None = None
    problem: str = ""
    unreached: bool = False
    words: str = ""
    """Of a problem, or of why it was not reached."""

    @property
    def good(self) -> bool:
        return not self.problem and not self.unreached


# --- what stands in the cluster -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Origin:
    """What a database is to be cloned from, as far as it is there."""

    database: SlateDatabase | None = None
    checkpoint: Checkpoint | None = None
    missing: str = ""
    """The object that is not there, as kind/name."""


@dataclass(frozen=True, slots=True)
class Relatives:
    """Other objects of the namespace, by which those that hold a deletion are named."""

    checkpoints: Sequence[Body] = ()
    databases: Sequence[Body] = ()
    clones: Sequence[Body] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """Everything that a plan goes by."""

    database: SlateDatabase
    now: float
    namespace_terminating: bool = False
    default_image: str = ""
    operator_namespace: str = "default"
    missing_secrets: Sequence[str] = ()
    """Secrets of the user that the spec names and that are not there."""
    secret_versions: Sequence[str] = ()
    """Of those that pods take their environment from."""
    deployments: Mapping[str, Body] = field(default_factory=dict)
    """By role."""
    pods: Mapping[str, Sequence[Body]] = field(default_factory=dict)
    origin: Origin | None = None
    relatives: Relatives = field(default_factory=Relatives)
    answers: Mapping[Ask, Answer] = field(default_factory=dict)

    @property
    def held(self) -> bool:
        """Whether our finalizer is on the object."""
        return FINALIZER_DATABASE in self.database.metadata.finalizers

    @property
    def image(self) -> str:
        """Of its pods; empty if nobody has named one."""
        return self.database.spec.image or self.database.status.image or self.default_image

    @property
    def owner(self) -> Owner:
        metadata = self.database.metadata
        return Owner(metadata.uid, metadata.namespace, metadata.name)

    def is_another(self, facts: DatabaseFacts) -> bool:
        """Whether this is not the database that was seen here before: every change commits the next manifest, a restore in
        place and an undeletion too, and the writer's epoch only grows."""
        known = self.database.status
        return facts.manifest_id < (known.manifest_id or 0) or facts.writer_epoch < (known.writer_epoch or 0)

    def after(self, ask: Ask, answer: Answer) -> Observed:
        return replace(self, answers={**self.answers, ask: answer})
