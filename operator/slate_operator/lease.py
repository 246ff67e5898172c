"""One operator works at a time: the one that holds the Lease.

Two at once would do no harm to data, since every write is guarded where it happens; they would only argue about status. So
the Lease is kept simple: who does not manage to renew it in time stops being the operator, at once and with an exit code
that says so.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from slate_operator.clock import Clock, micro_stamp
from slate_operator.kube.cluster import Body, Conflict, Kind, Refused, Unreachable
from slate_operator.kube.requests import Missing, Place, Requests

log = logging.getLogger(__name__)

LEASES = Kind("coordination.k8s.io/v1", "Lease", "leases")


class LeaseLost(Exception):
    """Another one is the operator now, or may be."""


class Lease:
    def __init__(
        self, requests: Requests, clock: Clock, *, namespace: str, name: str, identity: str, seconds: float
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._place = Place(LEASES, namespace, name)
        self._identity = identity
        self._seconds = seconds
        self._pause = seconds / 6
        self._held: Body | None = None
        self._seen: tuple[str, float] = ("", 0.0)

    async def acquire(self) -> None:
        """Wait until the Lease is ours."""
        told = ""
        while True:
            try:
                holder = await self._attempt()
            except (Conflict, Unreachable, TimeoutError) as trouble:
                holder = f"nobody knows ({trouble or 'the API server takes too long'})"
            except Refused as refusal:
                raise LeaseLost(f"the Lease {self._place} cannot be had: {refusal}") from None
            if holder is None:
                log.info("holding the Lease %s/%s", self._place.namespace, self._place.name)
                return
            if holder != told:
                told = holder
                log.info("standing by: the Lease %s/%s is held by %s", self._place.namespace, self._place.name, holder)
            await self._clock.sleep(self._pause * self._clock.uniform(0.9, 1.1))

    async def keep(self) -> None:
        """Renew the Lease for ever. Raises LeaseLost when that fails for too long, well before another may take it."""
        renewed = self._clock.monotonic()
        while True:
            await self._clock.sleep(self._pause)
            try:
                holder = await self._attempt()
                if holder is not None:
                    raise LeaseLost(f"{holder} has taken the Lease")
                renewed = self._clock.monotonic()
            except (Conflict, Unreachable, Refused, TimeoutError) as trouble:
                log.warning("the Lease could not be renewed: %s", trouble or "the API server takes too long")
                if self._clock.monotonic() - renewed > self._seconds / 2:
                    raise LeaseLost(f"the Lease could not be renewed for too long: {trouble}") from None

    async def release(self) -> None:
        """Give it back, so that the next one need not wait. Whatever goes wrong, it runs out by itself."""
        if self._held is None:
            return
        try:
            async with asyncio.timeout(self._pause):
                body = {**self._held, "spec": {**self._held["spec"], "holderIdentity": "", "leaseDurationSeconds": 1}}
                await self._requests.replace(self._place, body)
        except (Conflict, Unreachable, Refused, Missing, TimeoutError) as trouble:
            log.info("the Lease was not given back: %s", trouble)

    async def _attempt(self) -> str | None:
        """Take or renew it; who else holds it, if that is so."""
        async with asyncio.timeout(self._pause):
            if self._held is not None:
                try:
                    await self._take(self._held)
                    return None
                except (Conflict, Missing):
                    self._held = None  # somebody has written it since; look who
            try:
                found = await self._requests.get(self._place)
            except Missing:
                metadata = {"name": self._place.name, "namespace": self._place.namespace}
                body = {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata}
                place = Place(LEASES, self._place.namespace)
                self._held = await self._requests.create(place, {**body, "spec": self._spec({})})
                return None
            spec = found.get("spec") or {}
            holder = spec.get("holderIdentity") or ""
            if holder not in ("", self._identity) and not self._expired(spec):
                return str(holder)
            await self._take(found)
            return None

    async def _take(self, found: Body) -> None:
        """Write our name into it, if it is still as it was found."""
        renewed = {**found, "spec": self._spec(found.get("spec") or {})}
        self._held = await self._requests.replace(self._place, renewed)

    def _expired(self, spec: dict[str, Any]) -> bool:
        """Judged by our own clock alone: how long has the Lease not changed while we looked?"""
        state = f"{spec.get('holderIdentity')} {spec.get('renewTime')}"
        if state != self._seen[0]:
            self._seen = (state, self._clock.monotonic())
        return self._clock.monotonic() - self._seen[1] > float(spec.get("leaseDurationSeconds") or self._seconds)

    def _spec(self, before: dict[str, Any]) -> dict[str, Any]:
        now, ours = micro_stamp(self._clock.now()), before.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._seconds)),
            "acquireTime": before.get("acquireTime", now) if ours else now,
            "renewTime": now,
            "leaseTransitions": int(before.get("leaseTransitions") or 0) + (0 if ours else 1),
        }
