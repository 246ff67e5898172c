"""The ids of checkpoints, as text."""

from __future__ import annotations

from uuid import UUID

from slate_engine.api import arguments
from slate_engine.errors import InvalidError


def checkpoint_id(text: str) -> UUID:
    """The id that ``text`` spells."""
    try:
        return UUID(arguments.text(text, "the id of a checkpoint"))
    except ValueError:
        raise InvalidError(
            f"invalid checkpoint_id UUID: {text!r} is not one; list the checkpoints to find it"
        ) from None
