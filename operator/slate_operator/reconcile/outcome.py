"""What a reconcile found and wants to be told: the conditions, the status, the events, and when to look again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slate_operator.api.conditions import Condition


@dataclass(frozen=True, slots=True)
class Happening:
    """Something that the user should see in ``kubectl describe``, once."""

    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one reconcile. The caller writes the status if it differs, posts the events, and comes back in time."""

    conditions: Sequence[Condition] = ()
    status: Mapping[str, Any] = field(default_factory=dict)
    """The other fields of the status, as they are written (camel case)."""
    events: Sequence[Happening] = ()
    again_in: float | None = None
    """Seconds until the next look, if nothing happens before; None for the usual resync."""
    keep_generation: bool = False
    """Paused: nothing was done about the present spec, so the status goes on speaking of the former."""
    gone: bool = False
    """The last finalizer was released: there is nothing left to report on."""


class Unfit(Exception):
    """What is wanted cannot be done. ``final``: not before the user changes something."""

    def __init__(self, reason: str, message: str, *, final: bool = False) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message
        self.final = final
