"""How much a checkpoint of an open database includes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from slate_engine.api.shapes import Unit, Variant


class CheckpointScope(Variant):
    """Which of the writes before a checkpoint belong to it (RFC-0004)."""

    All: ClassVar[type[_All]]
    Durable: ClassVar[type[_Durable]]


@dataclass(repr=False)
class _All(CheckpointScope):
    """All of them. With ``force_flush`` they are made durable at once; without, they are waited for."""

    __qualname__ = "CheckpointScope.All"
    force_flush: bool


class _Durable(Unit, CheckpointScope):
    """Those that are durable at the moment of the call."""

    __qualname__ = "CheckpointScope.Durable"


CheckpointScope.All, CheckpointScope.Durable = _All, _Durable
