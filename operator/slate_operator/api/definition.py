"""What a kind is called and how ``kubectl get`` shows it: the part of a CRD that is not its schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Column:
    """A column of ``kubectl get``. The wide ones are shown by ``-o wide`` only."""

    name: str
    path: str
    type: Literal["string", "integer", "date"] = "string"
    description: str = ""
    wide: bool = False


@dataclass(frozen=True, slots=True)
class Scale:
    """Where ``kubectl scale`` and autoscalers find and set the number of pods."""

    wanted: str
    present: str
    selector: str


@dataclass(frozen=True, slots=True)
class Definition:
    """The names of a kind and its columns; ``Age`` is always the last of those that are not wide."""

    kind: str
    plural: str
    short: str
    columns: tuple[Column, ...]
    selectable: tuple[str, ...] = ()
    """Fields that ``kubectl get --field-selector`` takes."""
    scale: Scale | None = None

    @property
    def singular(self) -> str:
        return self.kind.lower()


READY = Column("Ready", '.status.conditions[?(@.type=="Ready")].status', description="Whether it can be used.")
REASON = Column(
    "Message", '.status.conditions[?(@.type=="Ready")].message', description="Why, and what to do next.", wide=True
)
AGE = Column("Age", ".metadata.creationTimestamp", "date")
