"""What all models of kinds share: names as Kubernetes spells them, nothing unknown, values that cannot be changed."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Name = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
"""The name of an object in the same namespace."""

Duration = Annotated[str, Field(pattern=r"^([0-9]+(ms|d|h|m|s))+$", max_length=32)]
"""A time such as ``7d``, ``12h``, ``90m`` or ``1h30m``."""

Size = Annotated[str, Field(pattern=r"^[1-9][0-9]*(Ki|Mi|Gi|Ti)?$", max_length=32)]
"""A number of bytes such as ``512Mi`` or ``10Gi``."""

Time = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""An instant, as RFC 3339 writes it."""

Free = Annotated[dict[str, Any], Field(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})]
"""An object whose shape belongs to somebody else, and is kept as it is."""


class Model(BaseModel):
    """A part of a kind. Its docstring and its fields' descriptions are what ``kubectl explain`` shows."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


class Observed(BaseModel):
    """A part of a status. What another version of the operator wrote there does not stop this one."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True)


class Empty(Model):
    """Nothing more to say."""


class Reference(Model):
    """Another object of the same namespace."""

    name: Name = Field(description="Its name.")


class Metadata(Observed):
    """What we read of an object's metadata."""

    name: str
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    resource_version: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None

    @property
    def deleting(self) -> bool:
        return self.deletion_timestamp is not None
