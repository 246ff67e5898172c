"""Conditions: what is true of an object, since when, and of which generation it was said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

from pydantic import Field

from slate_operator.api.model import Observed, Time

LONGEST_MESSAGE = 1024

Truth = Literal["True", "False", "Unknown"]


class Condition(Observed):
    """One observation, in the shape that all of Kubernetes uses."""

    type: str = Field(description="What is said something about.", max_length=316)
    status: Truth = Field(description="True, False or Unknown.")
    reason: str = Field(description="One word for programs.", max_length=1024)
    message: str = Field(default="", description="The same for people, with what to do next.", max_length=32768)
    last_transition_time: Time = Field(default="", description="When the status last changed.")
    observed_generation: int = Field(default=0, description="The generation of the spec that was looked at.")


Conditions = Annotated[
    tuple[Condition, ...],
    Field(max_length=32, json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}),
]
"""What is true of an object: one condition of each type."""


def said(type: str, status: bool | None, reason: str, message: str = "") -> Condition:
    """A condition as a step states it; when it changed and of which generation is filled in by :func:`merged`."""
    truth: Truth = "Unknown" if status is None else "True" if status else "False"
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 1] + "…"
    return Condition(type=type, status=truth, reason=reason, message=message)


def merged(old: Sequence[Condition], new: Iterable[Condition], *, generation: int, now: str) -> tuple[Condition, ...]:
    """The conditions of an object after ``new`` was found: the only ones it has from now on, sorted by type.

    A time changes with the status alone, so that the same findings give the same bytes and nothing has to be written.
    """
    before = {each.type: each for each in old}
    result = []
    for each in new:
        known = before.get(each.type)
        same = known is not None and known.status == each.status and known.last_transition_time
        since = known.last_transition_time if known is not None and same else now
        result.append(each.model_copy(update={"last_transition_time": since, "observed_generation": generation}))
    return tuple(sorted(result, key=lambda condition: condition.type))


def find(conditions: Iterable[Condition], type: str) -> Condition | None:
    return next((each for each in conditions if each.type == type), None)


def holds(conditions: Iterable[Condition], type: str) -> bool:
    found = find(conditions, type)
    return found is not None and found.status == "True"
