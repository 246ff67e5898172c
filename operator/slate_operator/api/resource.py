"""What the four kinds have in common: metadata, a definition, and the way from the API server's bytes to a model."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from slate_operator.api.definition import Definition
from slate_operator.api.model import Metadata, Observed


class Resource(Observed):
    """An object of ours, as the API server has it."""

    definition: ClassVar[Definition]

    metadata: Metadata

    @classmethod
    def of(cls, body: Any, *, extra: Literal["ignore"] | None = None) -> Self:
        """The object that the API server gave. Fields that only a newer version knows are an error, unless ignored."""
        return cls.model_validate(
            {"metadata": body["metadata"], "spec": body["spec"], "status": body.get("status") or {}}, extra=extra
        )
