"""How one secret follows another without shutting anybody out.

Files in pods are refreshed late, by a minute or two. So a new secret is first accepted, then used, and the old one is
accepted for a while longer: *spreading*, then *fading*, then nothing. What is under way stands in an annotation of the
Secret itself, so that it does not matter when, or by whom, it is carried on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from slate_operator.clock import seconds_of, stamp
from slate_operator.names import ANNOTATION_ROTATE, GROUP

T = TypeVar("T")

ANNOTATION_SUCCESSION = f"{GROUP}/succession"
SPREAD_SECONDS = 180.0
"""Every pod has the new secret after so long: kubelet looks once a minute, and may answer from what it saw a minute ago."""
FADE_SECONDS = 86400.0
"""Clients that read the old secret have so long to read the new one."""


@dataclass(frozen=True, slots=True)
class Succession(Generic[T]):
    """``other`` is the next one while it is spreading, the former one while it is fading."""

    current: T
    other: T | None = None
    phase: str = ""
    since: float = 0.0
    followed: str = ""
    """The value of the annotation that asked for the newest one."""

    @property
    def accepted(self) -> list[T]:
        return [self.current] if self.other is None else [self.current, self.other]

    def advanced(self, now: float, wanted: str, make: Callable[[], T], *, due: bool = False) -> Succession[T]:
        """As it should be now. ``wanted`` is the user's annotation, ``due`` that the current one ends soon."""
        match self.phase:
            case "spreading" if now >= self.since + SPREAD_SECONDS:
                assert self.other is not None
                return replace(self, current=self.other, other=self.current, phase="fading", since=now)
            case "fading" if now >= self.since + FADE_SECONDS:
                return replace(self, other=None, phase="", since=0.0)
            case "" | "fading" if wanted != self.followed or (due and not self.phase):
                # Whoever asks again while an old one fades has reason not to wait for it.
                return Succession(self.current, make(), "spreading", now, wanted)
        return self

    def next_change(self, now: float) -> float | None:
        """Seconds until :meth:`advanced` has something to do."""
        lasts = {"spreading": SPREAD_SECONDS, "fading": FADE_SECONDS}.get(self.phase)
        return None if lasts is None else max(0.0, self.since + lasts - now)

    @property
    def annotations(self) -> dict[str, str]:
        made = {ANNOTATION_ROTATE: self.followed} if self.followed else {}
        return made | ({ANNOTATION_SUCCESSION: f"{self.phase} {stamp(self.since)}"} if self.phase else {})

    @classmethod
    def of(cls, current: T, other: T | None, annotations: Mapping[str, str]) -> Succession[T]:
        """As a Secret tells it. One whose annotation somebody took away has no succession under way."""
        phase, _, since = annotations.get(ANNOTATION_SUCCESSION, "").partition(" ")
        followed = annotations.get(ANNOTATION_ROTATE, "")
        if other is None or not since:
            return cls(current, followed=followed)
        return cls(current, other, phase, seconds_of(since), followed)
