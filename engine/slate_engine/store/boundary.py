"""Boundaries of numbered objects (RFC-0026): the durable memory of which ids were given up.

Create-if-absent protects an id only while its object exists. Once the garbage collector has deleted manifest 7, a writer
that slept through it all can create manifest 7 again, and would take that for success. A boundary file
``<root>/gc/<name>.boundary`` holds one number, *ids up to and including this may have been deleted*: the collector
advances it before it deletes, a writer looks at it after it has created.

The number only ever grows. A boundary that this process has seen and that is missing or smaller now is an error, for then
nothing protects the deleted ids any more. (SlateDB 0.17 takes a missing file for 0; RFC-0026 does not, nor do we.)
"""

from __future__ import annotations

import logging
import re
import weakref
from typing import ClassVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

from slate_engine.errors import CorruptData, DataError, InvalidError
from slate_engine.runtime import Runtime
from slate_engine.store.protocol import (
    CREATE,
    Buffer,
    Conflict,
    NotFound,
    NotModified,
    ObjectStore,
    StoreUnavailable,
    Update,
)

log = logging.getLogger(__name__)

MAX_ID = 2**64 - 1
_TEXT = re.compile(rb"[ \t\r\n\f\v]*\+?([0-9]+)[ \t\r\n\f\v]*")
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class BoundaryLost(DataError):
    """A boundary file that was seen before is missing, or holds a smaller number. Stop, and find out who did that."""


class BoundaryMetrics:
    """The instruments of one registry. Ask :meth:`of`: a registry takes each name only once."""

    _by_registry: ClassVar[weakref.WeakKeyDictionary[CollectorRegistry, BoundaryMetrics]] = weakref.WeakKeyDictionary()

    def __init__(self, registry: CollectorRegistry) -> None:
        label = ("boundary",)
        self.check_seconds = Histogram(
            "slate_boundary_check_seconds", "Time to read a boundary", label, registry=registry, buckets=_SECONDS
        )
        self.advance_attempts = Counter(
            "slate_boundary_advance_attempts", "Conditional writes of a boundary", label, registry=registry
        )
        self.advance_failures = Counter(
            "slate_boundary_advance_failures", "Attempts that lost a race or failed", label, registry=registry
        )
        self.stale_writes = Counter(
            "slate_boundary_stale_writes", "Created objects that count as lost", label, registry=registry
        )

    @classmethod
    def of(cls, registry: CollectorRegistry | None = None) -> BoundaryMetrics:
        registry = registry or REGISTRY
        if registry not in cls._by_registry:
            cls._by_registry[registry] = cls(registry)
        return cls._by_registry[registry]


class Boundary:
    """The boundary of one namespace, cached by etag: a look at an unchanged one is a conditional GET without a body.

    ``store`` must answer from the bucket itself, never from a cache of objects.
    """

    def __init__(
        self,
        store: ObjectStore,
        root: str,
        name: str,
        runtime: Runtime,
        *,
        metrics: BoundaryMetrics | None = None,
        advance_timeout: float = 60.0,
    ) -> None:
        self._store = store
        self._runtime = runtime
        self.name = name
        self.key = f"{root}/gc/{name}.boundary" if root else f"gc/{name}.boundary"
        metrics = metrics or BoundaryMetrics.of()
        self._check_seconds = metrics.check_seconds.labels(name)
        self._attempts = metrics.advance_attempts.labels(name)
        self._failures = metrics.advance_failures.labels(name)
        self._stale_writes = metrics.stale_writes.labels(name)
        self._advance_timeout = advance_timeout
        self._value = 0
        self._etag: str | None = None

    @property
    def was_seen(self) -> bool:
        """Whether this process has seen the file, so that it would notice the loss of it."""
        return self._etag is not None

    def forget(self) -> None:
        """What was seen so far was of another database."""
        self._value, self._etag = 0, None

    async def read(self) -> int:
        """The durable boundary. 0 if there has never been one."""
        started = self._runtime.monotonic()
        known, etag = self._value, self._etag
        try:
            found = await self._store.get(self.key, if_none_match=etag)
        except NotModified:
            return self._value
        except NotFound:
            if etag is not None:
                raise BoundaryLost(
                    f"{self.key} was {known} and is missing now; deleted ids are unprotected. Stop all writers and "
                    "collectors, and restore the file with at least that number"
                ) from None
            return self._value
        finally:
            self._check_seconds.observe(self._runtime.monotonic() - started)
        value = parse(found.data, self.key)
        if value < known:
            raise BoundaryLost(
                f"{self.key} was {known} and is {value} now; a boundary never goes back. Stop all writers and "
                "collectors, and restore the larger number"
            )
        self._remember(value, found.meta.etag)
        return self._value

    async def advance(self, to: int) -> int:
        """Make the durable boundary at least ``to``, and return it. Never moves it back; any number may advance at once."""
        if not 0 <= to <= MAX_ID:
            raise InvalidError(f"a boundary is a number from 0 to {MAX_ID}, not {to}")
        deadline = self._runtime.monotonic() + self._advance_timeout
        delay = 0.01
        while (current := await self.read()) < to:
            self._attempts.inc()
            try:
                mode = CREATE if self._etag is None else Update(self._etag)
                self._remember(to, await self._store.put(self.key, b"%d" % to, mode))
                return to
            except (Conflict, StoreUnavailable) as failure:
                # Lost to another collector, or the answer is lost: what is durable now decides whether that matters.
                self._failures.inc()
                log.warning("advancing %s from %d to %d failed, trying again: %s", self.key, current, to, failure)
                lasting = isinstance(failure, StoreUnavailable) and not failure.retryable
                if lasting or self._runtime.monotonic() > deadline:
                    what = f"{self.key} could not be advanced from {current} to {to}: {failure}"
                    raise StoreUnavailable(f"{what}; delete nothing above {current}", unknown_outcome=True) from failure
            await self._runtime.sleep(self._runtime.uniform(0, delay))
            delay = min(delay * 2, 1.0)
        return current

    def reject(self, key: str, boundary: int) -> None:
        """Count and report a write that came too late."""
        self._stale_writes.inc()
        log.warning("%s was created too late: everything up to %d is given up (%s)", key, boundary, self.key)

    def _remember(self, value: int, etag: str) -> None:
        # Answers may overtake each other: what was read before something larger was seen is merely old.
        if value >= self._value:
            self._value, self._etag = value, etag


def parse(data: Buffer, key: str) -> int:
    """The number in a boundary file: ASCII decimal of 64 bits, blanks around it allowed."""
    text = bytes(data[:64])
    match = _TEXT.fullmatch(text)
    if match is None or len(data) > 64 or int(match[1]) > MAX_ID:
        raise CorruptData(f"not a decimal number of 64 bits: {text!r}", object=key)
    return int(match[1])
