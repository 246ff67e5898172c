"""Whether the watches still bring news, judged by news that they owe us.

A watch that has died looks just like one on which nothing happens. But whatever we write, and whatever a list shows that we
did not know, a living watch brings too, within moments. If it does not, it is dead, whatever its connection says.
"""

from __future__ import annotations

from slate_operator.clock import Clock
from slate_operator.kube.cache import uid_of, version_of
from slate_operator.kube.cluster import Body, Kind

PATIENCE = 90.0
"""Longer than kopf takes to notice a silent connection and open another."""


class Freshness:
    def __init__(self, clock: Clock, patience: float = PATIENCE) -> None:
        self._clock = clock
        self._patience = patience
        self._owed: dict[tuple[Kind, str], tuple[int, float]] = {}

    def expect(self, kind: Kind, body: Body) -> None:
        """This object is so now; the watch of its kind owes us that, or something newer."""
        which = (kind, uid_of(body))
        since = self._owed[which][1] if which in self._owed else self._clock.monotonic()
        self._owed[which] = (version_of(body), since)

    def saw(self, kind: Kind, body: Body) -> None:
        """The watch has brought this."""
        which = (kind, uid_of(body))
        if which in self._owed and version_of(body) >= self._owed[which][0]:
            del self._owed[which]

    def forget(self, kind: Kind, body: Body) -> None:
        """The object is gone: nothing more comes of it."""
        self._owed.pop((kind, uid_of(body)), None)

    def late(self) -> list[str]:
        """Which watches owe us news for too long, in words."""
        before = self._clock.monotonic() - self._patience
        kinds = sorted({kind.plural for (kind, _), (_, since) in self._owed.items() if since < before})
        return [
            f"the watch of {plural} has brought no news for {self._patience:.0f} s although there were"
            for plural in kinds
        ]
