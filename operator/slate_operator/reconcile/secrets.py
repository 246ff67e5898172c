"""The Secrets of a database: made once, kept, and renewed in time. What is in them is in no log, status or event."""

from __future__ import annotations

from dataclasses import dataclass

from slate_operator.api.database import SlateDatabase
from slate_operator.build.naming import Family
from slate_operator.build.secrets import Made, admin_secret, auth_secret, authority_secret, tls_secret, wanted_rotation
from slate_operator.clock import Clock
from slate_operator.kube.cluster import SECRETS, Body, Cluster, Conflict
from slate_operator.kube.ownership import check_own


@dataclass(frozen=True, slots=True)
class Tended:
    """What came of it."""

    rotated: str
    """The value of the user's annotation that was followed."""
    next_change: float | None
    """Seconds until one of them changes by itself."""


async def tend_secrets(cluster: Cluster, database: SlateDatabase, clock: Clock, cluster_domain: str) -> Tended:
    """Let all of them be as they should be now. The authority comes first: the others depend on it."""
    family, now = Family.of(database), clock.now()
    found = await _found(cluster, family, family.ca_secret)
    authority, authorities = authority_secret(database, found, now)
    changes = [await _keep(cluster, authority, found)]

    found = await _found(cluster, family, family.tls_secret)
    changes.append(await _keep(cluster, tls_secret(database, found, authorities, now, cluster_domain), found))

    found = await _found(cluster, family, family.admin_secret)
    changes.append(await _keep(cluster, admin_secret(database, found, authorities, now, clock.random_bytes), found))

    if database.spec.writer.auth.secret_ref is None:
        found = await _found(cluster, family, family.auth_secret)
        auth = auth_secret(database, found, now, clock.random_bytes)
        if auth is not None:
            changes.append(await _keep(cluster, auth, found))
    return Tended(wanted_rotation(database), min((each for each in changes if each is not None), default=None))


async def _found(cluster: Cluster, family: Family, name: str) -> Body | None:
    """What is in a Secret that somebody else has under this name, such as a certificate of his own, is not even read."""
    found = await cluster.get(SECRETS, family.key(name))
    if found is not None:
        check_own(SECRETS, found, family.object(SECRETS, name, {}))
    return found


async def _keep(cluster: Cluster, made: Made, found: Body | None) -> float | None:
    """A new secret is created and never applied: if there is one after all, it is not to be overwritten."""
    if found is not None:
        await cluster.apply(SECRETS, made.body)
    elif not await cluster.create(SECRETS, made.body):
        raise Conflict(f"Secret {made.body['metadata']['name']} has just come to be; look again")
    return made.next_change
